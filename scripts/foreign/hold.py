"""Compare recorded counters of third-party kernels with `derive`, as a document.

Counters are compared with what `derive` says of the same launches, term by term.

    PYTHONPATH=. python scripts/foreign/hold.py ioaware/recorded/foreign -o docs/results/derive-against-counters.md [--derive]

The folder holds `measured.jsonl`, of `measure.py`, and `derived.jsonl`, to which `--derive` adds the points that it lacks; that
takes the libraries' checkouts and the Triton that the kernels were measured with.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ioaware.errors import IoawareError
from ioaware.result import BYTES_HOLD, ParamValue, Result
from ioaware.result_file import read_jsonl, write_jsonl

sys.path.insert(0, str(Path(__file__).parent))
from sides import TOLERANCE, Row, point_of, rows

EXAMPLES = 2
"""Groups of launches with equal stores that the document names."""


def document(found: Sequence[Row], environment: Mapping[str, object]) -> str:
    """The tables in Markdown."""
    libraries: dict[str, list[Row]] = {}
    for row in found:
        libraries.setdefault(_library(row), []).append(row)
    parts = [INTRODUCTION.format(**environment), merging(found), summary(found), against_sectors(found)]
    for library, its in libraries.items():
        parts.append(f"## {library.replace('_', ' ')}\n\n{HEADER}\n" + "\n".join(map(_markdown, its)))
    return "\n\n".join(parts) + "\n"


def merging(found: Sequence[Row]) -> str:
    """Say in sentences what is known of the stores that the L1 puts together.

    This is of which stores, how many, and on what that depends.
    """
    with_sectors = [
        (row, row.writes, row.writes.sectors)
        for row in found
        if row.exact and row.predicted and row.writes.sectors is not None and not row.tma
    ]
    shares = {id(row): side.hits / (side.requests - sectors) for row, side, sectors in with_sectors if side.requests > sectors}
    single = [side for _, side, sectors in with_sectors if side.requests == sectors and not side.spills]
    alike: dict[tuple[int, int, int], list[Row]] = {}
    for row, side, sectors in with_sectors:
        if id(row) in shares and not side.spills:
            alike.setdefault((side.elements, sectors, side.requests), []).append(row)
    same = sorted((rows for rows in alike.values() if len(rows) > 2), key=len, reverse=True)[:EXAMPLES]
    examples = "; ".join(
        ", ".join(f"`{row.kernel}` {shares[id(row)]:.0%}" for row in sorted(rows, key=lambda row: shares[id(row)]))
        for rows in same
    )
    most = max((side.hits / side.elements for side in single if side.elements), default=0.0)
    saved = f"at most {most:.4%} of the bytes" if most else "nothing"
    text = (
        "The L1 may merge stores to one sector before it sends the sector to the L2. The third term is the most that it can "
        f"save by merging. At the {len(single)} launches with instructions that share no sector and without spills it saved "
        f"{saved}. "
        f"At the {len(shares)} others it saved between {min(shares.values()):.0%} and {max(shares.values()):.0%} of that term. "
        "The share follows neither from the addresses nor from the instructions. Launches that store as many bytes, to as many "
        f"sectors, with as many requested sectors, have different shares ({examples}). They also differ in the work around the "
        "stores. The likely reason is time: whether a sector still waits when its next store comes. No counter here proves it, "
        "so there is no formula. The derived requests to the L1 and the sectors of whole accesses are bounds on either side."
    )
    return textwrap.fill(text.replace("%", " %").replace("` ", "`\u00a0"), 128).replace("\u00a0", " ")


def summary(found: Sequence[Row]) -> str:
    """Return the totals over all rows, in sentences."""
    every = [side for row in found for side in (row.reads, row.writes)]
    sides = [side for row in found if row.exact for side in (row.reads, row.writes)]
    derived = [side for side in sides if side.asked is not None]
    alone = [side for side in sides if side.alone and side.requests == side.elements]
    kernels = {(row.target, row.kernel) for row in found}
    data = [share for row in found if row.exact for share in row.data or ()]
    farthest = max(abs(side.rest) / (side.requests + side.spills) for side in sides if side.requests)
    undecided = f" Of {len(every) - len(sides)} totals derive says that data decide them." if len(every) > len(sides) else ""
    return (
        f"{len(kernels)} kernels of {len({_library(row) for row in found})} libraries, {len(found)} launches, "
        f"{len(every)} totals of reads or of writes.{undecided}\n\n"
        "- No terms between derive and the L2 (every sector requested once and whole, no hits, spills or atomics): "
        f"{len(alone)} totals, of which {sum(side.passed == side.elements for side in alone)} equal derive's bytes to the byte "
        f"and {sum(side.equal for side in alone)} within {TOLERANCE:.1%}.\n"
        "- Requested from the L1 and by TMA, derived against counted: "
        f"{sum(side.asked == side.asked_counted for side in derived)} of {len(derived)} equal to the last sector.\n"
        "- Bytes that active threads request, derived against counted: "
        f"{sum(share == 1 for share in data)} of {len(data)} equal, "
        f"the farthest {max(abs(share - 1) for share in data):.2%} apart.\n"
        f"- Sent between L1 and L2: the terms add up within {TOLERANCE:.1%} of the requests at "
        f"{sum(row.closed for row in found)} of {len(found)} launches; the farthest is {farthest:.2%} off."
    ).replace("%", " %")


def against_sectors(found: Sequence[Row]) -> str:
    """Compare counters with derived sectors: no reads above, writes within 0.5 %.

    Each launch that is elsewhere has its terms beside it.
    """
    known = [row for row in found if row.exact]
    reads = [(row, share) for row in known if (share := row.reads.over_sectors) is not None]
    writes = [(row, share) for row in known if (share := row.writes.over_sectors) is not None]
    above = [(row, "reads", share, row.reads.why("L1 hits", row.tma)) for row, share in reads if share > 1 + TOLERANCE]
    apart = [(row, "writes", share, row.writes.why("merged", row.tma)) for row, share in writes if abs(share - 1) > TOLERANCE]
    lines = [
        f"| {row.target.rpartition('/')[2]}: `{row.kernel}` | {_size(row)} | {side} | {share:.5f} | {why} |"
        for row, side, share, why in (*above, *apart)
    ]
    text = (
        f"Whole tiles request derived sectors. Of {len(reads)} launches {len(reads) - len(above)} read no more than these from "
        f"the L2 (within {TOLERANCE:.1%}), and {len(above)} more. Of {len(writes)} launches {len(writes) - len(apart)} write "
        f"these within {TOLERANCE:.1%}. The table has each of the others and what explains it, as shares of the elements."
    ).replace("%", " %")
    head = "| kernel | size | side | counter over derived sectors | explained by |\n| --- | --- | --- | --- | --- |"
    return "\n".join(["## Against derived sectors", "", textwrap.fill(text, 128), "", head, *lines])


def _library(row: Row) -> str:
    return row.target.rpartition(":")[0].rpartition("/")[2].removesuffix(".py")


def _size(row: Row) -> str:
    return " ".join(f"{name}={_spelled(value)}" for name, value in row.params.items() if value is not None)


INTRODUCTION = """# Third-party kernels against an H200's counters

Kernels of other libraries, derived without a GPU and then run on an {gpu} (Triton {triton}) at two sizes
each. Most often one has rows of whole sectors and one has not. Requested bytes are those between an SM's L1 and the L2.
This page is made by `scripts/foreign/hold.py` from `ioaware/recorded/foreign/`. Each term in it is derived or counted,
none is fitted:

1. *Elements*: the bytes that the kernel's accesses request under their masks, by derive's formulas.
2. *Partial sectors*: an access moves whole sectors of 32 bytes, each once for all of its lanes. By derive's sector formulas,
   which count each access of a tile separately.
3. *Narrow or repeated instructions*: a tile is accessed by many instructions of many warps. Those that share a sector request
   it more than once. Unaligned rows take narrow loads, every warp loads the same scalar, and a compiler loads a tile once for
   each layout that it needs. `ioaware/derivation/l1_requests.py` computes this from the compiled kernel's layouts. The
   counters `l1tex__t_sectors_pipe_lsu_mem_global_op_ld` and `_st` must agree. *Whole boxes*: TMA copies elements outside a
   tensor too, and rows of 128 bytes at most.
4. *L1 hits*, counted: sectors that the L1 held, from a neighbouring instruction or as a weight that an earlier program on
   this SM loaded. No counter has the number of merged stores. *Merged* is the missing amount, and never more than makes each
   access whole. It has no formula, for the reason below.
5. *Spilled registers* and *atomics*, counted: bytes that the compiler keeps in local memory, and that atomics send and return.

Two more studies wait for a GPU: `scripts/foreign/h200-wide.toml` and `h200-compiled.toml`, 268 points of 134 targets of 15
libraries and of PyTorch's compiler. Of these, 109 points are derived (`wide-derived.jsonl`) and the HBM bytes of 94 predicted
(`ioaware/recorded/simulated/foreign.jsonl`), before anything of them was measured.

The columns *counter* are the requested bytes, by `l1tex__m_xbar2l1tex_read_bytes` and `l1tex__m_l1tex2xbar_write_bytes`, over
derive's elements. The terms after them are shares of derive's elements and add up to the difference. Without terms the two are
equal.

The bytes that active threads request differ in only six totals of reads. All are of launches that copy asynchronously and
spill registers (`sm__sass_data_bytes_mem_global_op_ldgsts` is the counter that differs), while sectors agree to the last one.
The code does not explain it: in `_attn_bwd` without a mask all 1,024 programs do the same, and 274,944 bytes are not a multiple
of 1,024. Three launches that copy likewise without spilling, and one that spills, agree to the byte."""

HEADER = (
    "| kernel | size | configuration | reads, derived | counter | terms | writes, derived | counter | terms | closed |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def _markdown(row: Row) -> str:
    chosen = " ".join(f"{name}={value}" for name, value in (row.configuration or {}).items())
    cells = [
        *(f"{row.target.rpartition(':')[2]}: `{row.kernel}`", _size(row), chosen),
        *(f"{row.reads.elements:,}", f"{row.reads.ratio:.5f}", row.reads.why("L1 hits", row.tma)),
        *(f"{row.writes.elements:,}", f"{row.writes.ratio:.5f}", row.writes.why("merged", row.tma)),
        _verdict(row),
    ]
    return f"| {' | '.join(cells)} |"


def _verdict(row: Row) -> str:
    if not row.exact:
        return "data decide"
    if not row.closed:
        return "no"
    return "yes" if row.predicted else "as counted"


def _spelled(value: ParamValue) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def derive_point(measured: Result) -> Result | None:
    """Derive a measured point in the configuration that ran, with its L1 counters.

    None, and the reason on stderr, where it is refused.
    """
    from ioaware.derivation.derive import derive
    from ioaware.targets.target import load_target

    try:
        target = load_target(measured.target)
        values = target.resolve(measured.params)
        derived = derive(target, values, machine_code=False, counters=True, autotune=measured.tuning)
    except (IoawareError, ImportError, FileNotFoundError) as error:
        print(f"{measured.target} {dict(measured.params)}: {error}", file=sys.stderr)
        return None
    launches = tuple(launch for launch in derived.launches if launch.origin == "triton")
    kept = {name: getattr(derived, name) for name in ("target", "params", "requested", "exact", "notes", "environment")}
    return Result("derive", **kept, launches=launches)


def derive_missing(measured: Iterable[Result], derived: Iterable[Result], jobs: int) -> list[Result]:
    """Return the derived points, and those that lack in processes of their own."""
    known = {point_of(result): result for result in derived}
    missing = [result for result in measured if result.status in BYTES_HOLD and point_of(result) not in known]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = [result for result in pool.map(derive_point, missing) if result is not None]
    return [*known.values(), *found]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every launch closes, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="the folder of measured.jsonl and derived.jsonl")
    parser.add_argument("--derive", action="store_true", help="add the points to derived.jsonl that it lacks")
    parser.add_argument("--only", default="", help="with --derive: points of targets with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="with --derive: processes")
    parser.add_argument("-o", "--output", type=Path, help="the document; none is written without")
    given = parser.parse_args(arguments)
    measured, place = list(read_jsonl(given.records / "measured.jsonl")), given.records / "derived.jsonl"
    if given.derive:
        wanted = [result for result in measured if given.only in result.target]
        before = read_jsonl(place) if place.exists() else ()
        write_jsonl(place, derive_missing(wanted, before, given.jobs))
    if given.output is None:
        return 0
    found = rows(measured, read_jsonl(place))
    given.output.write_text(document(found, measured[0].environment or {}), encoding="utf-8")
    print(summary(found), file=sys.stderr)
    return 0 if all(row.closed for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
