"""Predict the bytes of a call in steady state.

They are those that `scripts/steady_state.py` counts.

The calls before it left the L2 full of other lines, some of them dirty. So a call reads what an empty L2 would make it read.
What earlier calls left dirty is written back during it, as much as it leaves dirty itself: all that it writes counts.
"""

from __future__ import annotations

from ioaware.errors import IoawareError
from ioaware.machine import Machine
from ioaware.result import Launch, Result
from ioaware.simulation.accuracy import PredictedLaunch, Prediction
from ioaware.simulation.accuracy_record.torch_attention import (
    backend_of,
    fused_equivalent,
    requested_bytes,
    unfused_hbm_bytes,
)

CALL = "one call"
"""Name of all launches of a call together, in place of a kernel's."""


def is_steady(measured: Result) -> bool:
    """Return whether a record is a mean over calls in steady state."""
    return "steady_state" in (measured.telemetry or {})


def call_as_launch(measured: Result) -> Launch:
    """Return the bytes of a recorded call in the form of one launch."""
    return Launch(CALL, requested=measured.requested, hbm=measured.hbm)


def predict_call(measured: Result, machine: Machine) -> Prediction:
    """Simulate all launches of a call, the L2 kept between them."""
    from ioaware.simulation.simulate import simulate
    from ioaware.targets.target import load_target

    backend = backend_of(measured.target)
    try:
        if backend == "torch_math":
            return Prediction(measured.target, measured.params, (_unfused(measured),))
        if backend:
            target, given = load_target("flash2"), fused_equivalent(backend, measured.params)
        else:
            target, given = load_target(measured.target), measured.params
        done = simulate(target, target.resolve(given), machine=machine, autotune=measured.tuning)
    except (IoawareError, ImportError, FileNotFoundError) as error:
        return Prediction(measured.target, measured.params, failed=str(error).splitlines()[0])
    if done.hbm is None or done.hbm.read_bytes is None or done.hbm.write_bytes is None:
        return Prediction(measured.target, measured.params, failed="its bytes are not bounded")
    if backend:
        requested = requested_bytes(backend, measured.params)
        reads, writes = requested.read_bytes, requested.write_bytes
    else:
        reads, writes = _requested(done)
    shared = 0 if backend else sum(one.unknown_write_bytes for one in done.simulations if one)
    unmerged = 0 if backend else sum(one.unmerged_bytes for one in done.simulations if one)
    hbm = done.hbm.read_bytes, done.hbm.write_bytes
    served = [one.l1.served_bytes if one.l1 else None for one in done.simulations if one]
    known = None if None in served else sum(one or 0 for one in served)
    ranges = done.read_range, done.write_range
    call = PredictedLaunch(
        CALL,
        reads,
        writes,
        *hbm,
        *ranges,
        fills_l2=False,
        l1_served_bytes=known,
        most_requested_write_bytes=None if writes is None else writes + shared,
        least_requested_write_bytes=None if writes is None else writes - unmerged,
    )
    return Prediction(measured.target, measured.params, (call,))


def _requested(done: Result) -> tuple[int | None, int | None]:
    """Return requested sector bytes, atomic additions among the writes."""
    found = done.requested
    if found is None:
        return None, None
    reads = found.read_bytes if found.read_sector_bytes is None else found.read_sector_bytes
    writes = found.write_bytes if found.write_sector_bytes is None else found.write_sector_bytes
    return reads, None if writes is None else writes + (found.atomic_bytes or 0)


def _unfused(measured: Result) -> PredictedLaunch:
    requested, hbm = requested_bytes("torch_math", measured.params), unfused_hbm_bytes(measured.params)
    reads, writes = hbm.read_bytes, hbm.write_bytes
    ranges = (reads, reads), (writes, writes)
    return PredictedLaunch(CALL, requested.read_bytes, requested.write_bytes, reads, writes, *ranges, fills_l2=False)
