"""Bound what data decide, and give the HBM bytes of a launch their ranges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.machine.model import SECTOR_BYTES
from ioaware.simulation.l1.l1_shape import LINE_BYTES
from ioaware.simulation.l1.requested_reads import access_bytes
from ioaware.simulation.launch_replay import DataDependentAccess, Replay
from ioaware.simulation.planned_launch import PlannedLaunch
from ioaware.simulation.sequence import LaunchTraffic
from ioaware.simulation.simulation_result import LaunchSimulation, SpilledBytes, TensorTraffic


def launch_simulation(
    one: PlannedLaunch,
    simulated: LaunchTraffic,
    replayed: Replay,
    reads: Sequence[int],
    writes: Sequence[int],
    derived: Derived,
    capacity_bytes: float,
) -> LaunchSimulation:
    """Return the launch's simulation with the ranges of its HBM bytes.

    `capacity_bytes` is the least that the L2 can hold of what all SMs read. Least recently used lines
    are replaced first. So a line is read again only after as many bytes have come in, and a small tensor a few times at most.
    """
    least, most = (min(reads), min(writes)), [max(reads), max(writes)]
    unknown = {access: _most_bytes(one, access, derived) for access in replayed.data_dependent}
    rounds = 1 + _lines_requested(one, unknown, derived) * LINE_BYTES / capacity_bytes
    for access, bytes_ in unknown.items():
        if access.kind != "write":
            tensor_bytes = one.storage_bytes.get(access.tensor)
            most[0] += bytes_ if tensor_bytes is None else int(min(bytes_, rounds * tensor_bytes))
        if access.kind != "read":
            most[1] += bytes_
    spills = _moved(replayed)
    most[1] += spills.unknown_bytes if spills else 0
    waves = int(replayed.programs.wave.max(initial=-1)) + 1
    return LaunchSimulation(
        one.at_once.programs,
        one.at_once.per_sm,
        one.at_once.limit,
        waves,
        simulated.tensors,
        (least[0], most[0]),
        (least[1], most[1]),
        simulated.left_dirty_bytes,
        one.warps,
        spills=spills,
        shared_sector_bytes=one.shared.most_bytes + one.boxes.write_bytes,
        unmerged_bytes=one.shared.expected_bytes + one.boxes.write_bytes,
        refetched_bytes=one.refetched_bytes,
        executed=replayed.executed is not None,
        data_dependent=tuple(dict.fromkeys(access.tensor for access in replayed.data_dependent)),
    )


def _moved(replayed: Replay) -> SpilledBytes | None:
    """Return what the spilled registers of all programs move."""
    local, programs = replayed.local, replayed.durations.size
    if local is None:
        return None
    moved = local.spilled_bytes, local.refilled_bytes, local.loaded_bytes, local.most_spilled_bytes
    return SpilledBytes(*(programs * one for one in moved))


def _most_bytes(one: PlannedLaunch, access: DataDependentAccess, derived: Derived) -> int:
    """Return the bytes of every sector that a data-dependent access touches.

    Where data decide the sectors, each run of lanes may begin anywhere, and no element lies in two.
    """
    known, values = one.traffic.accesses[access.number], derived.values
    run_bytes = access.run_bytes if access.whole_runs else known.element_bytes
    sectors = -(-run_bytes // SECTOR_BYTES) + (run_bytes > known.element_bytes)
    most = _requested_bytes(access, one, derived) // run_bytes * sectors * SECTOR_BYTES
    if known.sectors is not None and known.sectors_exact and known.sectors.symbols <= values.keys():
        most = min(most, SECTOR_BYTES * int(known.sectors.evaluate(values)))  # pyright: ignore[reportArgumentType]
    return most


def _lines_requested(one: PlannedLaunch, most: Mapping[DataDependentAccess, int], derived: Derived) -> float:
    """Return the most lines that a launch requests, each sector in a line of its own.

    Infinite where data decide how many.
    """
    known = [access for number, access in enumerate(one.traffic.accesses) if number not in {each.number for each in most}]
    sizes = [access_bytes(access, derived) for access in known]
    return inf if None in sizes else (sum(one or 0 for one in sizes) + sum(most.values())) / SECTOR_BYTES


def with_data_dependent(
    one: PlannedLaunch, end: LaunchTraffic, replayed: Replay, derived: Derived, dirty_bytes: float, *, cold: bool
) -> LaunchTraffic:
    """Return a launch's traffic with what data-dependent accesses move.

    Their addresses are not known. Each byte of a tensor is taken as moved once, or as many as are requested if those are fewer.
    What the replay has moved of the tensor counts. `dirty_bytes` are what an L2 may hold unwritten; `cold` leaves them there.
    """
    asked: dict[tuple[str, str], int] = defaultdict(int)
    expected = _expected_bytes(one, replayed, derived)
    for access in replayed.data_dependent:
        if access.kind != "atomic" and access.tensor in one.storage_bytes:
            bytes_ = expected[access.number]
            sectors = -(-access.run_bytes // SECTOR_BYTES)
            asked[access.tensor, access.kind] += bytes_ * sectors * SECTOR_BYTES // access.run_bytes
    for (tensor, kind), bytes_ in asked.items():
        before = next((each for each in end.tensors if tensor in each.tensor.split("/")), None) or _untouched(tensor)
        left_of_it = one.storage_bytes[tensor] - (before.distinct_bytes if kind == "read" else before.write_bytes)
        moved = min(bytes_, max(0, left_of_it))
        dirty = min(moved, max(0, round(dirty_bytes) - end.left_dirty_bytes)) if cold and kind == "write" else 0
        read, written = (moved, 0) if kind == "read" else (0, moved - dirty)
        after = replace(
            before,
            read_bytes=before.read_bytes + read,
            distinct_bytes=before.distinct_bytes + read,
            write_bytes=before.write_bytes + written,
            left_dirty_bytes=before.left_dirty_bytes + dirty,
        )
        others = (each for each in end.tensors if each is not before)
        totals = end.read_bytes + read, end.write_bytes + written, end.left_dirty_bytes + dirty
        end = LaunchTraffic((*others, after), *totals)
    return end


def _expected_bytes(one: PlannedLaunch, replayed: Replay, derived: Derived) -> dict[int, int]:
    """Return the bytes that data-dependent accesses request, by their numbers.

    Where data decide them and are known, the launch's other bytes are divided by the bytes that lie side by side.
    """
    sizes = {number: access_bytes(access, derived) for number, access in enumerate(one.traffic.accesses)}
    found: dict[int, int] = {}
    for access in replayed.data_dependent:
        size = sizes[access.number]
        if size is None:
            alike = [each for each in replayed.data_dependent if each.kind == access.kind and sizes[each.number] is None]
            known = sum(sizes[number] or 0 for number, each in enumerate(one.traffic.accesses) if each.kind == access.kind)
            of_launch = (one.known and getattr(one.known, f"{access.kind}_bytes")) or 0
            left = max(0, of_launch - known)
            size = round(left * access.run_bytes / sum(each.run_bytes for each in alike))
        found[access.number] = size
    return found


def _untouched(tensor: str) -> TensorTraffic:
    return TensorTraffic(tensor, 0, 0, 0, 0, {"wave": 0, "capacity": 0, "skew": 0}, 0, 0, None)


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
