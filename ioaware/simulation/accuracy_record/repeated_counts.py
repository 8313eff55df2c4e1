"""Read counters that were counted a second time, to know how far they deviate.

Some HBM bytes of one launch differ from run to run: programs drift apart, and what they share is in the L2 or not. No
prediction can be nearer to both counts than half of what they differ by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioaware.result import BYTES_HOLD, Launch
from ioaware.result_file import read_jsonl
from ioaware.simulation.accuracy import Place, point_key
from ioaware.simulation.accuracy_record.steady_state import call_as_launch, is_steady
from ioaware.simulation.predictions import RECORDED

REPEATED = RECORDED / "repeated"
"""Points counted again by the studies of `scripts/repeated`."""
Repeated = Mapping[tuple[bool, str], Sequence[Launch]]
"""Launches counted again, by point and whether they are steady calls."""


def read_repeated(folder: Path = REPEATED) -> Repeated:
    """Return the launches that were counted again, point by point."""
    return {
        (is_steady(one), point_key(one.target, one.params)): [call_as_launch(one)] if is_steady(one) else one.launches
        for path in sorted(folder.glob("*.jsonl"))
        for one in read_jsonl(path)
        if one.hbm is not None and one.status in BYTES_HOLD
    }


def counted_again(launches: Sequence[Launch], at: int, kernel: str, place: Place) -> int | None:
    """Return the HBM bytes of a launch in a second run, the one `at` this place.

    None where its kernel is another one, or the place is not of HBM.
    """
    again = [one for one in launches if one.origin == "triton"]
    hbm = again[at].hbm if at < len(again) and again[at].kernel == kernel else None
    if hbm is None or not place.startswith("HBM"):
        return None
    return hbm.read_bytes if place == "HBM reads" else hbm.write_bytes
