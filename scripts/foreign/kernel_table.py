"""Derive and check every third-party target, and write a table of kernels.

Each target is derived and checked at two sizes, in a separate process.

    python scripts/foreign/kernel_table.py --keep FILE -o docs/results/kernel-coverage.md

`FOREIGN_<NAME>` names the checkout of a library; a library without one is skipped. Results are stored in FILE, target by
target, and a second call computes only the missing ones. `--only WORD` recomputes the targets with the word in their name, and
no others.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from checked import (
    BOUND,
    CONFIRMED,
    CRASH,
    DATA,
    FORMULA,
    RANDOM,
    REFUSED,
    WRONG,
    CheckedRow,
    counted,
    examined,
)
from libraries import LIBRARIES, targets_of

HERE = Path(__file__).parent
TIMEOUT_S = 300
SLOW_S, MEDIAN_S = 60, 3
Kept = dict[str, list[CheckedRow]]


def _child(spec: str, answer: str) -> None:
    """Derive and check in a new process; its output goes to a file beside the answer."""
    with Path(f"{answer}.log").open("w", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        Path(answer).write_text(json.dumps([asdict(row) for row in examined(spec)]), encoding="utf-8")


def rows_of(spec: str) -> list[CheckedRow]:
    """Return the rows of one target, derived in a forked process.

    The process has a time limit and empty caches.
    """
    name = Path(spec).name
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton"
        process = multiprocessing.get_context("fork").Process(target=_child, args=(spec, f"{folder}/answer"))
        process.start()
        process.join(TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()
            return [CheckedRow(name, exact=CRASH, reason=f"not done after {TIMEOUT_S} s")]
        answer = Path(folder) / "answer"
        if process.exitcode or not answer.exists():
            log = Path(f"{answer}.log").read_text(encoding="utf-8").strip().rpartition("\n")[2]
            return [CheckedRow(name, exact=CRASH, reason=f"exit code {process.exitcode}: {log[:200]}")]
        return [CheckedRow(**row) for row in json.loads(answer.read_text(encoding="utf-8"))]


def read(keep: Path) -> Kept:
    """Return the rows of an earlier call, by target."""
    if not keep.exists():
        return {}
    found = [json.loads(text) for text in keep.read_text(encoding="utf-8").splitlines()]
    return {one["target"]: [CheckedRow(**row) for row in one["rows"]] for one in found}


def run(specs: Sequence[str], keep: Path, only: str | None) -> Kept:
    """Return the rows of all targets; append to `keep` what was not there."""
    kept = read(keep)
    missing = [spec for spec in specs if (only in Path(spec).name if only else Path(spec).name not in kept)]
    for at, spec in enumerate(missing):
        rows = rows_of(spec)
        kept[Path(spec).name] = rows
        said = "; ".join(f"{row.kernel or '-'} {row.exact} {row.here} | {row.elsewhere}" for row in rows)
        print(f"{at + 1}/{len(missing)} {Path(spec).name}: {said[:300]}", file=sys.stderr, flush=True)
        with keep.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"target": Path(spec).name, "rows": [asdict(row) for row in rows]}) + "\n")
    return {Path(spec).name: kept[Path(spec).name] for spec in specs if Path(spec).name in kept}


INTRODUCTION = """\
Public functions of other libraries, called by the thin targets in `scripts/foreign/`: no library was written for ioaware, and
none was changed. Each is derived for an H200 without a GPU at the sizes of its target. Each launch is counted again by plain
interpretation of its IR (`derive --check`). Both are done again at other sizes, where the first formulas must also
give the numbers of the second derivation.

- *exact*: `formula` is a formula of the sizes; `own data` are bytes at the index tensors that the target builds itself;
  `random data` are such bytes, but the contents were drawn at random; `no` has the reason beside it.
- *check*: what plain interpretation counts at the target's sizes and at the other ones. `agrees` is equality of bytes read,
  written and updated atomically, of FLOPs, and of sectors where they are exact.
- *seconds*: CPU time of one derivation with empty caches, compilers included, imports left out. Other programs ran on the
  machine, which makes it longer."""

HOW = """\
Made by this script, which takes the checkouts that `FOREIGN_<NAME>` names. It is resumed by calling it again, so rows may
be of several versions of this repository:

    python scripts/foreign/kernel_table.py --keep rows.jsonl -o docs/results/kernel-coverage.md"""

HEADER = (
    "| target | kernel | reads (bytes) | writes (bytes) | for | exact | check | at other sizes | seconds |\n"
    + "| --- " * 9
    + "|"
)


def summary(rows: Iterable[CheckedRow], libraries: int) -> str:
    """Return what the table comes to, in sentences."""
    rows = list(rows)
    kernels = [row for row in rows if row.kernel]
    targets = {row.target: row.seconds for row in kernels}
    exact = counted(kernels, FORMULA, DATA)
    wrong = [row for row in kernels if WRONG in row.here + row.elsewhere]
    confirmed = [row for row in kernels if row.here == CONFIRMED]
    both = [row for row in confirmed if row.elsewhere == CONFIRMED]
    slow = [name for name, seconds in targets.items() if seconds > SLOW_S]
    return "\n".join(
        [
            f"- {len(kernels)} kernels of {len(targets)} targets of {libraries} libraries.",
            f"- Exact: {exact} ({exact / len(kernels):.1%}): {counted(kernels, FORMULA)} by a formula, "
            f"{counted(kernels, DATA)} at the target's own data. {counted(kernels, RANDOM)} more have numbers for random data, "
            f"and {counted(kernels, BOUND)} depend on data that a kernel computes or on an operation without a rule.",
            f"- Plain interpretation agrees at the target's sizes for {len(confirmed)}, at both sizes for {len(both)}. "
            f"It differs for {len(wrong)}.",
            f"- Refused: {counted(rows, REFUSED)} targets. Crashes and targets over {TIMEOUT_S} s: {counted(rows, CRASH)}.",
            f"- A derivation takes {statistics.median(targets.values()):.1f} s of CPU in the median, and "
            f"{max(targets.values()):.1f} s at most; {len(slow)} take more than {SLOW_S} s.",
        ]
    )


def document(found: Mapping[str, Sequence[CheckedRow]]) -> str:
    """Return the page in Markdown, a table a library."""
    by_file = {library.file: name for name, library in LIBRARIES.items()}
    tables: dict[str, list[CheckedRow]] = {}
    for target, rows in found.items():
        tables.setdefault(by_file[target.rpartition(":")[0]], []).extend(rows)
    everything = [row for rows in tables.values() for row in rows]
    titles = list(dict.fromkeys(LIBRARIES[name].title for name in tables))
    sources = "\n".join(dict.fromkeys(LIBRARIES[name].source for name in tables))
    parts = ["# Kernels of other libraries, derived and checked", INTRODUCTION, summary(everything, len(titles)), HOW, sources]
    for title in titles:
        rows = [row for name, some in tables.items() if LIBRARIES[name].title == title for row in some]
        parts.append(f"## {title}\n\n{HEADER}\n" + "\n".join(map(_markdown, rows)))
    return "\n\n".join(parts) + "\n"


def _markdown(row: CheckedRow) -> str:
    target = row.target.rpartition(":")[2]
    if not row.kernel:
        return f"| {target} | | | | | {row.exact}: {_cell(row.reason)} | | | |"
    exact = row.exact if row.exact == FORMULA else f"{row.exact}: {_cell(row.reason)}"
    elsewhere = f"{_cell(row.elsewhere)} ({row.sizes})" if row.sizes else "no other size runs"
    conditions = f"`{row.conditions}`" if row.conditions else ""
    cells = (target, f"`{row.kernel}`", row.reads, row.writes, conditions, exact, _cell(row.here) or "-", elsewhere)
    return f"| {' | '.join(cells)} | {row.seconds:.1f} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when nothing is wrong, nothing crashed and no target takes too long.

    Only what is called exact can be wrong. Return 1 otherwise.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write the page here")
    parser.add_argument("--keep", type=Path, required=True, help="keep what was found here, and go on from there")
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this library (repeatable)")
    parser.add_argument("--only", metavar="WORD", help="do the targets whose name contains this again")
    parser.add_argument("--page", action="store_true", help="derive nothing: only write the page of what was kept")
    given = parser.parse_args(arguments)
    os.environ.update(OMP_NUM_THREADS="1", IOAWARE_CACHE_DIR="")
    import torch
    import triton  # noqa: F401 - imported once, before the processes are forked

    torch.set_num_threads(1)
    found: Kept = {}
    for name, library in LIBRARIES.items():
        if os.environ.get(library.variable) and name in (given.library or LIBRARIES):
            specs = [f"{HERE / library.file}:{target}" for target in targets_of(HERE / library.file)]
            found |= read_only(specs, given.keep) if given.page else run(specs, given.keep, given.only)
    if given.output:
        given.output.write_text(document(found), encoding="utf-8")
    rows = [row for some in found.values() for row in some]
    print(summary(rows, len({row.target.rpartition(":")[0] for row in rows})), file=sys.stderr)
    return int(any(row.exact == CRASH for row in rows))


def read_only(specs: Sequence[str], keep: Path) -> Kept:
    """Return what was kept of these targets."""
    kept = read(keep)
    return {Path(spec).name: kept[Path(spec).name] for spec in specs if Path(spec).name in kept}


if __name__ == "__main__":
    raise SystemExit(main())
