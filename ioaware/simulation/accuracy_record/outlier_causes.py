"""Name the cause of an outlier, from what the record holds beside the number."""

from __future__ import annotations

from ioaware.result import Launch
from ioaware.simulation.accuracy import Comparison, PredictedLaunch


def cause(one: Comparison, counted: Launch, predicted: PredictedLaunch) -> str:
    """Return the first known cause that fits, or "not explained"."""
    requested = counted.requested
    more_writes = bool(
        requested
        and requested.write_bytes
        and predicted.requested_write_bytes
        and requested.write_bytes > 1.05 * predicted.requested_write_bytes
    )
    if counted.local_bytes:
        return "register spills, which are not in the IR"
    if predicted.read_range[1] is None or predicted.read_range[1] > 20 * max(predicted.hbm_read_bytes, 1):
        return "addresses or trip counts depend on data: only a range is predicted"
    if one.place == "requested reads":
        return "the L1 serves part of the requests" if one.counted < one.predicted else "more sectors than tiles: see explain"
    if more_writes:
        return "partial-sector stores: the L2 receives more than derived and writes some lines back early"
    if one.inside:
        return "sensitive to capacity and skew: inside the predicted range"
    return "not explained"
