"""Assemble the result of a simulation: totals behind the L1, ranges and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from ioaware.derivation.derived import Derived
from ioaware.machine import Machine
from ioaware.result import Launch, Result, Traffic
from ioaware.simulation.planned_launch import PlannedLaunch
from ioaware.simulation.sequence import SequenceResult
from ioaware.simulation.simulation_result import LaunchSimulation, Range, Simulated, SpilledBytes

SENSITIVE = 0.05
"""A range wider than this share of the number causes a warning."""


def simulated_result(
    derived: Derived,
    machine: Machine,
    launches: Sequence[PlannedLaunch],
    done: SequenceResult,
    simulations: Sequence[LaunchSimulation],
    *,
    cold: bool,
) -> Simulated:
    simulated = done.launches
    pairs = iter(zip(launches, simulated, simulations, strict=True))
    out: list[Launch] = []
    found: list[LaunchSimulation | None] = []
    for launch in derived.launches:
        if launch.origin != "triton":
            out.append(launch)
            found.append(None)
            continue
        _, end, simulation = next(pairs)
        requested = _with_spills(_behind_l1(launch.requested, simulation), simulation.spills)
        out.append(replace(launch, requested=requested, hbm=Traffic(end.read_bytes, end.write_bytes), exact=False))
        found.append(simulation)
    reads, writes = sum(one.read_bytes for one in simulated), sum(one.write_bytes for one in simulated)
    known = {f.name: getattr(derived, f.name) for f in fields(Result)}
    ranges = [_sum_ranges([getattr(one, name) for one in simulations]) for name in ("read_range", "write_range")]
    known |= {
        "source": "simulate",
        "requested": _total(derived, out, simulations),
        "hbm": Traffic(reads, writes),
        "exact": False,
        "launches": tuple(out),
        "notes": (*derived.notes, *_notes(machine, reads, writes, ranges, simulations, done, cold=cold)),
    }
    return Simulated(
        **known, machine=machine.name, cold=cold, simulations=tuple(found), read_range=ranges[0], write_range=ranges[1]
    )


def _behind_l1(requested: Traffic | None, simulation: LaunchSimulation) -> Traffic | None:
    """Return the requests of a launch that go to the L2.

    They are the loads that the L1 does not serve, and the sectors that copies past it fetch again. Stores whose instructions
    share sectors request some of them again.
    """
    if requested is not None and requested.write_sector_bytes is not None:
        requested = replace(requested, write_sector_bytes=requested.write_sector_bytes + simulation.unmerged_bytes)
    if requested is None or simulation.requested_read_bytes is None:
        return requested
    return replace(requested, read_sector_bytes=simulation.requested_read_bytes + simulation.refetched_bytes)


def _total(derived: Derived, launches: Sequence[Launch], simulations: Sequence[LaunchSimulation]) -> Traffic | None:
    """Return the requests of all launches that go to the L2."""
    total = derived.requested
    for one in simulations:
        total = _with_spills(total, one.spills)
    if total is not None and total.write_sector_bytes is not None:
        unmerged = sum(one.unmerged_bytes for one in simulations)
        total = replace(total, write_sector_bytes=total.write_sector_bytes + unmerged)
    parts = [one.requested and one.requested.read_sector_bytes for one in launches if one.origin == "triton"]
    known = [one for one in parts if one is not None]
    return total and replace(total, read_sector_bytes=sum(known) if len(known) == len(parts) else None)


def _with_spills(requested: Traffic | None, spills: SpilledBytes | None) -> Traffic | None:
    """Return the requests of a launch with those of its spilled registers."""
    if requested is None or spills is None:
        return requested
    added = dict.fromkeys(("read_bytes", "read_sector_bytes"), spills.refilled_bytes)
    added |= dict.fromkeys(("write_bytes", "write_sector_bytes"), spills.stored_bytes)
    known = {name: getattr(requested, name) for name in added}
    return replace(requested, **{name: known[name] + size for name, size in added.items() if known[name] is not None})


def _sum_ranges(parts: Sequence[Range]) -> Range:
    most = [high for _, high in parts if high is not None]
    return sum(low for low, _ in parts), sum(most) if len(most) == len(parts) else None


def _notes(
    machine: Machine,
    reads: int,
    writes: int,
    ranges: Sequence[Range],
    simulations: Sequence[LaunchSimulation],
    done: SequenceResult,
    *,
    cold: bool,
) -> list[str]:
    """Return the assumptions and uncertainties of the numbers as notes."""
    model = machine.l2_model
    notes = [
        f"L2 of {machine.name}: {machine.level('l2').capacity_bytes:,} bytes, {model.partitions} partitions, least recently "
        f"used replaced ({model.source})",
        "programs of a wave advance by requested bytes: in step where matmuls bound them, otherwise the oldest of an SM leads",
        _l1_note(machine, simulations),
    ]
    if any(one.spills for one in simulations):
        notes.append("spilled registers are counted, from machine code: launches say how many bytes they store and load")
    if done.every > 1:
        notes.append(f"1 of {done.every} lines of the L2 is replayed, in a cache as much smaller: HBM bytes are estimated")
    if done.drift_refused:
        notes.append(f"ranges leave out that programs may drift apart: {done.drift_refused}")
    if by_data := dict.fromkeys(tensor for one in simulations for tensor in one.data_dependent):
        notes.append(f"data decide where {', '.join(by_data)} are accessed: each byte is taken as moved once")
    if number := sum(one.executed for one in simulations):
        which = "a launch: it is" if number == 1 else f"{number} launches: they are"
        notes.append(f"data that the target built decide the addresses of {which} executed on these data")
    for name, number, (low, high) in (("reads", reads, ranges[0]), ("writes", writes, ranges[1])):
        if high is None or high - low > SENSITIVE * max(number, 1):
            most = "any number" if high is None else f"{high:,}"
            notes.append(f"HBM {name} are uncertain: {low:,} to {most} bytes over the possible capacities and skews")
    if cold:
        notes.append("the L2 is emptied before each launch; lines that a launch leaves dirty are not counted as written")
    return notes


def _l1_note(machine: Machine, simulations: Sequence[LaunchSimulation]) -> str:
    if any(one.l1 is None for one in simulations):
        return "a launch is too large to replay through the L1: all of its requests are counted"
    served = sum(one.l1.served_bytes for one in simulations if one.l1)
    again = sum(one.l1.again_bytes for one in simulations if one.l1)
    waits = f", and loads request {again:,} bytes again after waits" if again else ""
    return f"the L1s serve {served:,} bytes of the loads{waits} ({machine.l1_model.source})"
