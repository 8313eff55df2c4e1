"""Compare recorded counters of third-party kernels with `derive`, as a document.

Counters are compared with what `derive` says of the same launches, term by term.

    PYTHONPATH=. python scripts/foreign/hold.py ioaware/recorded/foreign -o docs/results/derive-against-counters.md

The folder holds measured points, of `measure.py`, and derived ones. `--derive FILE` first adds the points to FILE that have no
derivation in the configuration that ran. That takes the libraries' checkouts, and the Triton that the kernels ran with.
Launches that were counted again are in `l1/h200-passes.json` beside the folder, by `scripts/probe_requests.py`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from ioaware.errors import IoawareError
from ioaware.report.attention.recorded_bytes import same_launches
from ioaware.result import BYTES_HOLD, Launch, Result
from ioaware.result_file import read_jsonl, write_jsonl

sys.path.insert(0, str(Path(__file__).parent))
from counters_page import document, summary
from repeated_calls import read_calls
from sides import Point, point_of, rows

AGAIN = Path("l1") / "h200-passes.json"
"""Beside the folder of the records."""
PATH = re.compile(r"(?<!\w)/\S+/")
"""Folders of a machine, in a note or in the message of an error."""


def records(folder: Path) -> tuple[list[Result], dict[Point, Result]]:
    """Return the measured points of a folder, and the derived ones by point.

    Of a point that was measured again, the last record with bytes is returned. Of a point that was derived again, in the
    configuration that ran, the last derivation is.
    """
    paths = sorted(folder.glob("*.jsonl"), key=lambda path: path.stem)  # NAME before NAME-later
    found = [result for path in paths for result in read_jsonl(path)]
    ran: dict[Point, Result] = {}
    for result in found:
        if result.source == "measure" and (result.status in BYTES_HOLD or point_of(result) not in ran):
            ran[point_of(result)] = result
    derived: dict[Point, Result] = {}
    for result in found:
        key = point_of(result)
        if result.source == "derive" and (key not in derived or (key in ran and same_launches(ran[key], result))):
            derived[key] = result
    return list(ran.values()), derived


def why_not(measured: Result, derived: Result | None) -> str:
    """Return why a measured point cannot be compared, or nothing."""
    if measured.status not in BYTES_HOLD:
        said = (measured.notes[0] if measured.notes else "").partition("\n")[0]
        return f"{measured.status}: {PATH.sub('', said)}".replace("|", "\\|")
    if derived is None:
        return "measured, and not derived"
    if any(one.requested is None or one.requested.total_bytes is None for one in derived.launches):
        return "data that a kernel computes decide its bytes"
    return ""


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
    kept = {name: getattr(derived, name) for name in ("target", "params", "requested", "exact", "notes", "environment")}
    launches = tuple(without_folders(launch) for launch in derived.launches if launch.origin == "triton")
    return Result("derive", **kept, launches=launches)


def without_folders(launch: Launch) -> Launch:
    """Return a launch whose notes name files alone, as records must."""
    return replace(launch, notes=tuple(PATH.sub("", note) for note in launch.notes))


def derive_or_say_why(measured: Result) -> Result | None:
    """Derive a measured point; None, and the error on stderr, where derive fails.

    Why: an error that cannot be pickled ends the pool, and all of its points are lost.
    """
    try:
        return derive_point(measured)
    except Exception as error:
        print(f"{measured.target} {dict(measured.params)}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def derive_missing(measured: Iterable[Result], jobs: int) -> list[Result]:
    """Derive measured points in processes of their own."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        return [result for result in pool.map(derive_or_say_why, measured) if result is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every launch closes, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="the folder of the measured and derived points")
    parser.add_argument("--derive", metavar="FILE", help="add the points that lack a derivation to FILE in the folder")
    parser.add_argument("--only", default="", help="with --derive: points of targets with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="with --derive: processes")
    parser.add_argument("-o", "--output", type=Path, help="the document; none is written without")
    given = parser.parse_args(arguments)
    measured, derived = records(given.records)
    there = [result for result in measured if result.status in BYTES_HOLD]
    if given.derive:
        fits = {
            key for key, result in derived.items() if any(same_launches(one, result) for one in there if point_of(one) == key)
        }
        missing = [result for result in there if given.only in result.target and point_of(result) not in fits]
        place = given.records / given.derive
        write_jsonl(place, [*(read_jsonl(place) if place.exists() else ()), *derive_missing(missing, given.jobs)])
        measured, derived = records(given.records)
    if given.output is None:
        return 0
    reasons = [(result, why_not(result, derived.get(point_of(result)))) for result in measured]
    again = given.records.parent / AGAIN
    calls = read_calls(again) if again.exists() else {}
    found = rows([result for result, reason in reasons if not reason], derived.values(), calls)
    left = [(result, reason) for result, reason in reasons if reason]
    given.output.write_text(document(found, left, measured[0].environment or {}), encoding="utf-8")
    print(summary(found), file=sys.stderr)
    return 0 if all(row.closed for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
