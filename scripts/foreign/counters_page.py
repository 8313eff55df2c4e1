"""Write the page of third-party kernels against counters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from libraries import LIBRARIES
from repeated_calls import Calls
from sides import TOLERANCE, UNEXPLAINED, Row, Side

from ioaware.machine.model import SECTOR_BYTES
from ioaware.result import ParamValue, Result

EXAMPLES = 2
"""Groups of launches with equal stores that the document names."""
SHOWN = 0.0005
"""Terms smaller than this share of derived sectors are left out of the table.

The sums include them.
"""
COLUMNS = (
    *("kernel", "size", "configuration", "reads, derived", "counter", "instructions", "L1 hits", "spills"),
    *("writes, derived", "counter", "instructions", "merged", "spills", "explained by"),
)


PUZZLES = {
    "liger.py:llama4_rope": ("rotary on interleaved lanes", 0.58),
    "serving.py:per_token_int8": ("int8 quantisation by token", 1.38),
    "serving.py:add_rms_norm": ("fused norm", 1.15),
    "gems_reductions.py:fused_add_rms_norm": ("fused norm", 1.15),
}
"""Targets of the kinds that an earlier trial found off.

Each has the kind, and that trial's counter over derived sectors.
"""
TITLES = {library.file: library.title for library in LIBRARIES.values()}
Left = tuple[Result, str]
"""A measured point that is not compared, and why."""


def document(found: Sequence[Row], left: Sequence[Left], environment: Mapping[str, object]) -> str:
    """The page in Markdown; `left` are the points that are not compared."""
    libraries: dict[str, list[Row]] = {}
    for row in found:
        libraries.setdefault(library(row), []).append(row)
    parts = [
        INTRODUCTION.format(**environment),
        summary(found),
        against_sectors(found),
        counted_again(found),
        puzzles(found),
        merging(found),
        not_compared(left),
    ]
    header = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
    for name, its in libraries.items():
        parts.append(f"## {name}\n\n{header}\n" + "\n".join(map(_markdown, its)))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(found: Sequence[Row]) -> str:
    """Return the totals over all rows, in sentences."""
    every = [side for row in found for side in (row.reads, row.writes)]
    sides = [side for row in found if row.exact for side in (row.reads, row.writes)]
    derived = [side for side in sides if side.asked is not None]
    alone = [side for side in sides if side.alone and side.requests == side.elements]
    kernels = {(row.target, row.kernel) for row in found}
    data = [share for row in found if row.exact for share in row.data or ()]
    farthest = max((abs(side.rest) / (side.requests + side.spills) for side in sides if side.requests), default=0.0)
    undecided = f" Of {len(every) - len(sides)} totals derive says that data decide them." if len(every) > len(sides) else ""
    return (
        f"{len(kernels)} kernels of {len({library(row) for row in found})} libraries, {len(found)} launches, "
        f"{len(every)} totals of reads or of writes.{undecided}\n\n"
        "- No terms between derive and the L2 (every sector requested once and whole, no hits, spills or atomics): "
        f"{len(alone)} totals, of which {sum(side.passed == side.elements for side in alone)} equal derive's bytes to the byte "
        f"and {sum(side.equal for side in alone)} within {TOLERANCE:.1%}.\n"
        "- Requested from the L1 and by TMA, derived against counted: "
        f"{sum(side.asked == side.asked_counted for side in derived)} of {len(derived)} equal to the last sector.\n"
        "- Bytes that active threads request, derived against counted: "
        f"{sum(share == 1 for share in data)} of {len(data)} equal, "
        f"the farthest {max((abs(share - 1) for share in data), default=0.0):.2%} apart.\n"
        f"- Sent between L1 and L2: the terms add up within {TOLERANCE:.1%} of the requests at "
        f"{sum(row.closed for row in found)} of {len(found)} launches{_on_average(found)}; the farthest is {farthest:.2%} off."
    ).replace("%", " %")


def _on_average(found: Sequence[Row]) -> str:
    average = sum(row.averaged for row in found)
    return f", at {average} of them on average over several calls" if average else ""


def against_sectors(found: Sequence[Row]) -> str:
    """Compare counters with derived sectors: no reads above, writes within 0.5 %.

    The launches that are elsewhere are counted by what explains them.
    """
    known = [row for row in found if row.exact]
    reads = [row for row in known if row.reads.over_derived > 1 + TOLERANCE]
    writes = [row for row in known if row.writes.off]
    lines = [
        f"{len(known) - len(reads)} of {len(known)} launches read no more than derived sectors (within {TOLERANCE:.1%}). "
        f"{len(reads)} read more: {_causes(reads, 'reads')}.",
        f"{len(known) - len(writes)} of {len(known)} launches write derived sectors within {TOLERANCE:.1%}. "
        f"{len(writes)} do not: {_causes(writes, 'writes')}.",
        "The table's last column names it for each launch.",
    ]
    return "## Against derived sectors\n\n" + _fill(" ".join(lines))


def counted_again(found: Sequence[Row]) -> str:
    """List the launches whose terms add up on average alone.

    Beside each is what single calls leave.
    """
    its = [(row, row.calls) for row in found if row.averaged and row.calls is not None]
    if not its:
        return ""
    calls = its[0][1]
    lines = [
        f"| {row.target.rpartition(':')[2]}: `{row.kernel}` | {size(row.params)} | {_calls(row, calls)} |" for row, calls in its
    ]
    text = AGAIN_TEXT.format(calls=calls.count, passes=calls.passes, alone=calls.alone)
    head = "| kernel | size | side | recorded call | single calls | means |"
    return "\n".join([text, head, f"|{' --- |' * 6}", *lines])


def _calls(row: Row, calls: Calls) -> str:
    """Return the cells of the side that does not add up in the recorded call."""
    side, rest, name = (row.writes, calls.writes, "writes") if row.reads.closed else (row.reads, calls.reads, "reads")
    shares = [f"{share:+.2%}".replace("%", " %") for share in (_left(side), rest.least, rest.most, rest.mean)]
    return f"{name} | {shares[0]} | {shares[1]} to {shares[2]} | {shares[3]}"


def _left(side: Side) -> float:
    return side.rest / max(1, side.requests + side.spills + side.atomics)


def _causes(rows: Iterable[Row], side: str) -> str:
    """Count launches by what explains them, the most first."""
    counted: dict[str, int] = {}
    for row in rows:
        cause = row.read_causes if side == "reads" else row.write_causes
        counted[cause] = counted.get(cause, 0) + 1
    return "; ".join(f"{count} by {cause}" for cause, count in sorted(counted.items(), key=lambda pair: -pair[1])) or "none"


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
    least_share, most_share = min(shares.values(), default=0.0), max(shares.values(), default=0.0)
    single = [side for _, side, sectors in with_sectors if side.requests == sectors == side.elements and not side.spills]
    partly = [side for _, side, sectors in with_sectors if side.requests == sectors > side.elements and not side.spills]
    filled = max((side.hits / side.derived for side in partly), default=0.0)
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
        "The L1 may merge stores to one sector before it sends the sector to the L2. "
        "The column *instructions* is the most that it can save by merging. "
        f"At the {len(single)} launches without spills whose instructions store whole sectors and share none it saved {saved}. "
        f"At {len(partly)} launches stores fill sectors in part; those of other lines may fill the rest, and it saved up to "
        f"{filled:.0%}. "
        f"At the {len(shares)} others it saved between {least_share:.0%} and {most_share:.0%} of that term. "
        "The share follows neither from the addresses nor from the instructions. Launches that store as many bytes, to as many "
        f"sectors, with as many requested sectors, have different shares ({examples}). They also differ in the work around the "
        "stores. The likely reason is time: whether a sector still waits when its next store comes. No counter here proves it, "
        "so there is no formula. The derived requests to the L1 and the sectors of whole accesses are bounds on either side."
    )
    return "## Merged stores\n\n" + _fill(text)


def puzzles(found: Sequence[Row]) -> str:
    """Return the write totals that an earlier trial could not explain, as counted now."""
    lines = [
        f"| {kind} | {before} | {row.target.rpartition('/')[2]}: `{row.kernel}` | {size(row.params)} | "
        f"{row.writes.over_derived:.5f} | {_share(row.writes.terms[0], row.writes.derived)} | "
        f"{_share(row.writes.terms[1], row.writes.derived)} |"
        for target, (kind, before) in PUZZLES.items()
        for row in found
        if row.target.endswith(target)
    ]
    if not lines:
        return ""
    head = "| kind | before | kernel | size | writes over derived sectors | instructions | merged |"
    return "\n".join([PUZZLES_TEXT, head, f"|{' --- |' * 7}", *lines])


def not_compared(left: Sequence[Left]) -> str:
    """List the points that are not compared, by target and reason."""
    if not left:
        return ""
    sizes: dict[tuple[str, str], list[str]] = {}
    for result, reason in left:
        sizes.setdefault((result.target.rpartition("/")[2], reason), []).append(size(result.params))
    lines = [f"| {target} | {'; '.join(its)} | {reason} |" for (target, reason), its in sizes.items()]
    return "\n".join(["## Points that are not compared", "", "| target | sizes | reason |", "| --- | --- | --- |", *lines])


def library(row: Row) -> str:
    """Return the title of the library of a row's target."""
    return TITLES[row.target.rpartition(":")[0].rpartition("/")[2]]


def size(params: Mapping[str, ParamValue]) -> str:
    """Return parameters as a cell of a table."""
    return " ".join(f"{name}={_spelled(value)}" for name, value in params.items() if value is not None)


def _fill(text: str) -> str:
    return textwrap.fill(text.replace("%", "\u00a0%").replace("` ", "`\u00a0"), 128).replace("\u00a0", " ")


INTRODUCTION = """# Third-party kernels against an H200's counters

Kernels of other libraries, derived without a GPU and then run on an {gpu} (Triton {triton}) at two sizes
each. Most often one has rows of whole sectors and one has not. Requested bytes are those between an SM's L1 and the L2.
This page is made by `scripts/foreign/hold.py` from `ioaware/recorded/foreign/`. Each term in it is derived or counted,
none is fitted:

1. *Derived*: bytes of the sectors that the kernel's accesses touch under their masks, each access of a tile for itself, by
   derive's sector formulas. Where data decide the sectors, bytes of the elements.
2. *Counter*: `l1tex__m_xbar2l1tex_read_bytes` and `l1tex__m_l1tex2xbar_write_bytes`, without atomics, over *derived*.
3. *Instructions*: a tile is accessed by many instructions of many warps. Those that share a sector request it more than once.
   Unaligned rows take narrow loads, every warp loads the same scalar, and a compiler loads a tile once for each layout that it
   needs. `ioaware/derivation/l1_requests.py` computes this from the compiled kernel's layouts. The counters
   `l1tex__t_sectors_pipe_lsu_mem_global_op_ld` and `_st` must agree. TMA copies elements outside a tensor too, and rows of 128
   bytes at most (*whole boxes*).
4. *L1 hits*, counted: sectors that the L1 held, from a neighbouring instruction or as a weight that an earlier program on
   this SM loaded. No counter has the number of merged stores. *Merged* is the missing amount. It
   never exceeds what leaves each stored byte sent once.
5. *Spills*, counted: bytes of registers that the compiler keeps in local memory.

Terms are shares of *derived*; with 1 they add up to the counter. *Explained by* names what moves a counter away from derived
sectors by more than 0.5 %. Hits on sectors that an instruction requested before only make up for that instruction. The
configuration is that of an autotuned kernel; derive took the one that ran.

Fewer sectors are requested than derived at three launches, each of 132 programs of which the last has no rows. There the
machine code skips loads before the loop over rows: of 313 sectors of weights, or of three scalars by 16 warps. Layouts do not
show this.

One launch of `int8_matmul` has rows of 2,000 bytes, so every other row begins in the middle of a sector. Its copies past the
L1 (`LDGSTS.BYPASS.128`) take 16 bytes a lane. A probe of 160 such copies (`scripts/probe_requests.py`) shows the rule. Each
pair of lanes fetches its own sectors: where 32 bytes begin in the middle of a sector, both. The counter of requests has one for
them, or two where they lie in two lines. derive follows the rule, which gives all 160 counts. The fetched sectors are part of
*instructions*.

The bytes that active threads request differ, but for those of skipped loads, only in reads of launches that copy
asynchronously. There `sm__sass_data_bytes_mem_global_op_ldgsts` is the counter that differs, while sectors agree to the last
one. The code does not explain it: in `_attn_bwd` without a mask all 1,024 programs do the same, and 274,944 bytes are not a
multiple of 1,024."""


AGAIN_TEXT = """## Terms of different runs

ncu counts these terms in {passes} runs of a kernel, one after the other: hits are of one run, bytes of another. Where hits
depend on which programs an SM runs side by side, runs differ, and the terms of one call do not add up. So
`scripts/probe_requests.py` counted each of these launches again, {calls} times with all counters and {alone} times with each
counter alone, in one run. The table has what the terms leave, as a share of the requests. It has both signs, and the means
add up. Recorded calls shared the GPU with other profiled processes; these had it alone, and most leave less. All runs
request the same sectors, but in `nll_loss`: each program that finds itself among the last stores the mean, and how many do
depends on time. There the means leave less than a sector.
"""


PUZZLES_TEXT = """## Three write totals that were not explained

An earlier trial, of libraries that it does not name, found three kinds of kernels whose writes were far from derived sectors.
The same kinds are among the kernels of this page. Stores of even and of odd lanes by two instructions each touch every sector,
and the L1 merges some of them. Rows that are no multiple of a sector are stored by narrow instructions that share sectors. At
sizes of whole sectors the second and third kind write derived sectors. `ioaware derive` marks all of these stores: sectors are
*written in part*, or *counted once: narrow instructions share them, and a counter sees up to N times as many*. For int8
quantisation at 5,001 columns N is 1.99, for the norms 1.5.
"""


def _markdown(row: Row) -> str:
    chosen = " ".join(f"{name}={value}" for name, value in (row.configuration or {}).items())
    name = f"{row.target.rpartition(':')[2]}: `{row.kernel}`"
    cells = [name, size(row.params), chosen, *_side(row.reads), *_side(row.writes), _explained(row)]
    return f"| {' | '.join(cells)} |"


def _side(side: Side) -> list[str]:
    return [f"{side.derived:,}", f"{side.over_derived:.5f}", *(_share(term, side.derived) for term in side.terms)]


def _share(term: int, derived: int) -> str:
    """Return a term in percent of derived sectors, in bytes where there are none."""
    if not derived:
        return f"{term:+,} B" if term else ""
    return f"{term / derived:+.1%}".replace("%", " %") if abs(term) >= SHOWN * derived else ""


def _explained(row: Row) -> str:
    if not row.exact:
        return "data decide"
    causes = [f"{side}: {cause}" for side, cause in (("reads", row.read_causes), ("writes", row.write_causes)) if cause]
    if skipped := (row.reads.skipped + row.writes.skipped) // SECTOR_BYTES:
        causes.append(f"{skipped:,} sectors derived and not requested")
    rest = max((abs(side.rest) / max(1, side.requests + side.spills) for side in (row.reads, row.writes)), default=0.0)
    if row.averaged:
        causes.append("terms of different runs")
    elif rest > TOLERANCE or not row.writes.whole:
        causes.append(f"{UNEXPLAINED}: {rest:.1%} of the requests".replace("%", " %"))
    if not row.predicted:
        causes.append("instructions as counted")
    return "; ".join(causes)


def _spelled(value: ParamValue) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"
