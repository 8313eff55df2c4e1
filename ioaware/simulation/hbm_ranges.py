"""Bound what data decide, and give the HBM bytes of a launch their ranges."""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.machine.model import SECTOR_BYTES
from ioaware.simulation.launch_replay import DataDependentAccess, Replay
from ioaware.simulation.planned_launch import PlannedLaunch
from ioaware.simulation.sequence import LaunchTraffic
from ioaware.simulation.simulation_result import LaunchSimulation, Range, SpilledBytes


def launch_simulation(
    one: PlannedLaunch,
    simulated: LaunchTraffic,
    replayed: Replay,
    reads: Sequence[int],
    writes: Sequence[int],
    derived: Derived,
) -> LaunchSimulation:
    """Return the launch's simulation with the ranges of its HBM bytes."""
    read_range: Range = (min(reads), max(reads))
    write_range: Range = (min(writes), max(writes))
    for access in replayed.data_dependent:
        read_range, write_range = _widen_ranges(one, access, derived, read_range, write_range)
    spills = _moved(replayed)
    if spills and write_range[1] is not None:
        write_range = write_range[0], write_range[1] + spills.unknown_bytes
    waves = int(replayed.programs.wave.max(initial=-1)) + 1
    return LaunchSimulation(
        one.at_once.programs,
        one.at_once.per_sm,
        one.at_once.limit,
        waves,
        simulated.tensors,
        read_range,
        write_range,
        simulated.left_dirty_bytes,
        one.warps,
        spills=spills,
        shared_sector_bytes=one.shared_sector_bytes,
        refetched_bytes=one.refetched_bytes,
        data_dependent=tuple(dict.fromkeys(access.tensor for access in replayed.data_dependent)),
    )


def _moved(replayed: Replay) -> SpilledBytes | None:
    """Return what the spilled registers of all programs move."""
    local, programs = replayed.local, replayed.durations.size
    if local is None:
        return None
    moved = local.spilled_bytes, local.refilled_bytes, local.loaded_bytes, local.most_spilled_bytes
    return SpilledBytes(*(programs * one for one in moved))


def _widen_ranges(
    one: PlannedLaunch, access: DataDependentAccess, derived: Derived, read: Range, write: Range
) -> tuple[Range, Range]:
    """Widen the ranges by a data-dependent access.

    At least nothing of it is moved, at most every sector that it touches. Where data decide the sectors, each lane may touch
    its own.
    """
    known, values = one.traffic.accesses[access.number], derived.values
    lanes = _requested_bytes(access, one, derived) // known.element_bytes
    most = lanes * max(SECTOR_BYTES, known.element_bytes)
    sectors = known.sectors
    if sectors is not None and known.sectors_exact and sectors.symbols <= values.keys():
        most = min(most, SECTOR_BYTES * int(sectors.evaluate(values)))  # pyright: ignore[reportArgumentType]
    if access.kind != "write":
        read = (read[0], None if read[1] is None else read[1] + most)
    if access.kind != "read":
        write = (write[0], None if write[1] is None else write[1] + most)
    return read, write


def check_bounds(launches: Sequence[PlannedLaunch], replays: Sequence[Replay], derived: Derived) -> None:
    """Raise `UsageError` for an access without a bound."""
    for one, replayed in zip(launches, replays, strict=True):
        for access in replayed.data_dependent:
            _requested_bytes(access, one, derived)


def _requested_bytes(access: DataDependentAccess, one: PlannedLaunch, derived: Derived) -> int:
    """Return the most bytes that an access requests.

    Where its data are known, all that the launch requests.

    Raises `UsageError` where unknown data decide them.
    """
    bytes_, values = one.traffic.accesses[access.number].bytes, derived.values
    of_launch = one.known and getattr(one.known, f"{access.kind}_bytes")
    if of_launch is not None and not bytes_.symbols <= values.keys():
        return of_launch
    if missing := ", ".join(sorted(bytes_.symbols - values.keys())):
        raise UsageError(
            f"{derived.target} cannot be bounded: {one.launch.kernel} depends on {missing}",
            f"Give it a value, as in -p '{missing.split(', ')[0]}=0'.",
        )
    return int(bytes_.evaluate(values))  # pyright: ignore[reportArgumentType]
