"""Name the cause of an outlier, from what the record holds beside the number."""

from __future__ import annotations

from ioaware.result import Launch, Traffic
from ioaware.simulation.accuracy import Comparison, PredictedLaunch

UNEXPLAINED = "not explained"
RESIDUE_BYTES = 10_000_000
"""Uncertainty of what a launch leaves dirty in the L2.

15 to 30 MB were seen on an H200.
"""
HIT_SHARE = 0.98
"""HBM bytes below this share of the requested ones: the L2 serves some."""


FACTOR = 2
"""Replacement and drift explain no error beyond this factor."""


def cause(one: Comparison, counted: Launch, predicted: PredictedLaunch) -> str:
    """Return the first known cause that fits, or `UNEXPLAINED`."""
    requested = counted.requested or Traffic()
    if one.counted_again is not None and one.deviates:
        return f"the counter deviates by itself: {one.counted_again / one.counted:.2f} of it in a second run"
    if one.family.startswith("torch_"):
        return _of_torch(one, requested)
    if counted.local_bytes:
        return _of_spills(predicted)
    if predicted.read_range[1] is None or predicted.read_range[1] > 20 * max(predicted.hbm_read_bytes, 1):
        return "addresses or trip counts depend on data: only a range is predicted"
    if one.place.startswith("requested reads"):
        return _of_l1(one, predicted)
    if one.place == "requested writes" and one.inside:
        return "partial-sector stores: inside the predicted range, whose ends merge all requests of a sector and none"
    once = predicted.requested_write_bytes if (least := predicted.least_requested_write_bytes) is None else least
    if _more(requested.write_bytes, once):
        return "partial-sector stores: the L2 receives more than derived and writes some lines back early"
    if one.place == "HBM writes, steady state" and one.counted < one.predicted:
        return "temporaries at the same addresses in every call stay dirty in the L2: the prediction writes them"
    if one.inside:
        return "sensitive to capacity, replacement and skew: inside the predicted range"
    if one.place == "HBM writes" and abs(one.predicted - one.counted) <= RESIDUE_BYTES:
        return "what a launch leaves dirty in the L2 is known to 10 MB only: absent in steady state"
    if one.place == "HBM reads" and "causal=True" in one.point and one.predicted > FACTOR * one.counted:
        return "the order in which programs of unequal length end decides which lines both partitions hold"
    if not one.counted <= FACTOR * one.predicted <= FACTOR**2 * one.counted:
        return UNEXPLAINED
    if one.place == "HBM reads" and _some_hit(one.counted, requested.read_bytes):
        return "part of what is read again hits in the L2: replacement and drift of the programs decide how much"
    if one.place.startswith("HBM writes") and _some_hit(one.counted, requested.write_bytes):
        return "part of what is written again is written back in between: replacement decides how much"
    return UNEXPLAINED


def _of_spills(predicted: PredictedLaunch) -> str:
    """Return the cause where registers are spilled.

    First predictions, which have no most requested writes, leave them out.
    """
    if predicted.most_requested_write_bytes is None:
        return "register spills: the first predictions leave them out"
    return "register spills: programs reach them at times that are not known, and what the L1s and the L2 keep depends on these"


def _of_l1(one: Comparison, predicted: PredictedLaunch) -> str:
    """Return the cause for requested reads."""
    if one.counted < one.predicted:
        return "the L1 serves part of the requests"
    if one.counted <= one.predicted + (predicted.l1_served_bytes or 0):
        return "the L1 serves less than its model: replacement and drift of an SM's programs decide how much"
    return "more sectors than tiles: see explain"


def _of_torch(one: Comparison, requested: Traffic) -> str:
    """Return the cause for a back end of torch, whose kernels have no IR."""
    if one.place.startswith("HBM") and _some_hit(one.counted, requested.read_bytes):
        return "the order of the library's programs is not modelled: HBM bytes are those of flash2 with the same blocks"
    if one.place == "requested writes" and one.counted > FACTOR * one.predicted:
        return "stores beyond the output, likely spilled registers of the library's kernel: not in the stated model"
    return "not in the stated model of torch's kernels"


def _more(counted: int | None, predicted: int | None) -> bool:
    return bool(counted and predicted and counted > 1.05 * predicted)


def _some_hit(hbm_bytes: int, requested_bytes: int | None) -> bool:
    return requested_bytes is not None and hbm_bytes < HIT_SHARE * requested_bytes
