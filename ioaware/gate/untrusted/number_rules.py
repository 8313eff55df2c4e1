"""Apply rules about numbers that contradict each other, or physics."""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.gate.untrusted.finding import Finding, Outcome
from ioaware.gate.untrusted.kernel_evidence import Evidence, Measured
from ioaware.machine.model import Machine
from ioaware.result import BYTES_HOLD, Traffic
from ioaware.symints.guard_evaluation import UnknownFunctionError
from ioaware.symints.guards import Condition

ALLOWANCE = 0.02
"""By how much a measured time may be below its bound.

Clocks and timers err by less.
"""
COUNTER_ALLOWANCE = 0.01
"""By how much measured HBM bytes may be below compulsory ones."""


def not_derived(evidence: Evidence) -> Iterator[Finding]:
    """Find what cannot be derived: formulas, registers and spills are not known."""
    if evidence.not_derived:
        yield Finding("not_derived", Outcome.INCOMPLETE, f"there are no formulas: {evidence.not_derived}", evidence.target)


def other_kernels(evidence: Evidence) -> Iterator[Finding]:
    """Find other kernels in the derivation or the record than in the trials."""
    if evidence.derived is None or not evidence.trials.repeated:
        return
    tried = set(evidence.trials.repeated[0].kernels)
    derived = {launch.kernel for launch in evidence.derived.launches if launch.origin == "triton"}
    if tried != derived:
        what = "the function launches other kernels when it is derived than when its output is examined"
        found = {"derived": sorted(derived), "examined": sorted(tried)}
        same_sizes = evidence.params == evidence.trial_params
        yield Finding("other_kernels", Outcome.SUSPECT if same_sizes else Outcome.INCOMPLETE, what, evidence.target, found)
    record = evidence.measured.record if evidence.measured else None
    if record is None:
        return
    measured = {launch.kernel for launch in record.launches if launch.origin == "triton"}
    if measured - derived:
        found = {"derived": sorted(derived), "measured": sorted(measured)}
        what = "the record has kernels that the function does not launch here"
        yield Finding("other_kernels", Outcome.SUSPECT, what, ", ".join(sorted(measured - derived)), found)


def other_path(evidence: Evidence) -> Iterator[Finding]:
    """Find a branch of host code that only the trials' sizes take.

    The judged sizes do not take it.
    """
    derived, judged, tried = evidence.derived, evidence.params, evidence.trial_params
    if derived is None or judged == tried:
        return
    fixed = [name for name in tried if tried[name] != judged.get(name) and name not in derived.values]
    if fixed or derived.validity is None:
        what = "the launches depend on this size in a way that no formula shows: try the judged size itself"
        yield Finding("other_path", Outcome.INCOMPLETE, what, ", ".join(fixed))
        return
    sizes = {name: value for name, value in tried.items() if type(value) is int and name in derived.values}
    for condition in (*derived.validity.conditions, *derived.validity.implicit):
        if not condition.reason.startswith("constexpr") and not _met(condition, {**derived.values, **sizes}):
            what = "host code takes another branch at the trial's sizes: what was examined is not what is judged"
            yield Finding("other_path", Outcome.INCOMPLETE, what, condition.reason, {"condition": str(condition)})
            return


def impossible_time(evidence: Evidence) -> Iterator[Finding]:
    """Find a time in which the compulsory bytes cannot come from HBM."""
    measured = evidence.measured
    if measured is None or measured.time_ns is None:
        return
    record, floor = measured.record, evidence.compulsory
    if record is not None and record.status != "ok":
        yield Finding("impossible_time", Outcome.INCOMPLETE, f"the record is marked {record.status}: its time does not count")
        return
    if floor is None:
        what = "the compulsory bytes are not known at these sizes, so the time cannot be judged"
        yield Finding("impossible_time", Outcome.INCOMPLETE, what)
        return
    least_ns = least_time_ns(floor, measured)
    if not measured.time_ns >= least_ns * (1 - ALLOWANCE):
        what = f"{measured.time_ns:,.0f} ns is less than the {least_ns:,.0f} ns in which the compulsory bytes can come from HBM"
        found = {"time_ns": measured.time_ns, "least_time_ns": least_ns, "compulsory_bytes": floor.total_bytes}
        yield Finding("impossible_time", Outcome.IMPOSSIBLE, what, measured.machine.name, found)


def impossible_hbm(evidence: Evidence) -> Iterator[Finding]:
    """Find measured HBM reads below the compulsory ones, after a flush of the L2."""
    measured, floor = evidence.measured, evidence.compulsory
    record = measured.record if measured else None
    if record is None:
        return
    if record.status == "impossible":
        yield Finding("impossible_hbm", Outcome.IMPOSSIBLE, "the record is marked impossible: its numbers contradict physics")
    elif record.status not in BYTES_HOLD or record.hbm is None or record.hbm.read_bytes is None or floor is None:
        yield Finding("impossible_hbm", Outcome.INCOMPLETE, "the record has no HBM bytes that count, or no compulsory ones")
    elif not record.hbm.read_bytes >= (floor.read_bytes or 0) * (1 - COUNTER_ALLOWANCE):
        what = f"{record.hbm.read_bytes:,} B came from HBM, less than the {floor.read_bytes:,} B of the inputs"
        yield Finding("impossible_hbm", Outcome.IMPOSSIBLE, what)


def least_time_ns(compulsory: Traffic, measured: Measured) -> float:
    """Return the shortest time of one call, in nanoseconds.

    After a flush every input byte comes from HBM, and writes beyond the L2 go there. Without one the L2 may hold its capacity
    of inputs and outputs.
    """
    reads, writes = compulsory.read_bytes or 0, compulsory.write_bytes or 0
    l2_bytes = measured.machine.level("l2").capacity_bytes
    moved = reads + max(0, writes - l2_bytes) if measured.cold else max(0, reads + writes - l2_bytes)
    return moved / read_ceiling(measured.machine) * 1e9


def read_ceiling(machine: Machine) -> float:
    """Return the bytes per second read from HBM.

    The value is as calibrated, else the memory's peak.
    """
    return machine.level("hbm").rates.get("read") or machine.bandwidth_bytes_per_s("hbm")


def _met(condition: Condition, values: dict[str, int]) -> bool:
    """Return whether a condition holds; one that cannot be evaluated does not."""
    try:
        return bool(condition.met(values))
    except (UnknownFunctionError, ZeroDivisionError, OverflowError, KeyError, ValueError):
        return False
