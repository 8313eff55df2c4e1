"""Plan the replay of each launch: programs, storages, spills, loads by the L1."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import KernelTraffic
from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.compilation.execution.program_values import INVENTED, Moved
from ioaware.compilation.instructions.compiled_loads import Eviction
from ioaware.compilation.instructions.line_sharing import SharedLines
from ioaware.compilation.launch_traffic import launch_touches
from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, items_of
from ioaware.compilation.resource_usage import Resources
from ioaware.compilation.triton_ir import first_ir, integer_at
from ioaware.derivation.derive import Derivation
from ioaware.derivation.machine_code_notes import refetched_bytes
from ioaware.machine import Machine
from ioaware.machine.carveout import l1_bytes
from ioaware.machine.occupancy import LANES, Occupancy, occupancy
from ioaware.result import Launch, Traffic
from ioaware.simulation.addresses.executed_launch import executed_launch
from ioaware.simulation.addresses.known_contents import KnownContents
from ioaware.simulation.l1.l1_loads import lines_of_touches, loads_by_l1
from ioaware.simulation.l1.l1_replay import L1Replay, replay_l1
from ioaware.simulation.l1.shared_sectors import SharedSectors, shared_sectors, written_apart
from ioaware.simulation.l1.tma_boxes import Boxes, tma_boxes
from ioaware.simulation.launch_replay import Replay, replay
from ioaware.simulation.program_drift import has_matmul, rates_by_age
from ioaware.simulation.schedule import AgedSm
from ioaware.simulation.sequence import LaunchPlan
from ioaware.simulation.spills.launch_spills import LaunchSpills, launch_spills
from ioaware.simulation.spills.local_streams import LOCAL_MEMORY, LOCAL_STORAGE
from ioaware.simulation.waves.placement import placed_by_ends, waits

DEFAULT_WARPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLaunch:
    """Launch with everything that its replay needs."""

    launch: Launch
    traffic: KernelTraffic
    at_once: Occupancy
    warps: int
    plan: LaunchPlan
    by_l1: tuple[Eviction | None, ...]
    """For each load through the L1 its eviction; None for other accesses."""
    shared_lines: tuple[SharedLines, ...]
    """Lines of each access that several instructions touch."""
    written_apart: tuple[float, ...]
    """Share of the sectors of each store whose parts are written apart."""
    l1_bytes: int
    """Capacity of the L1 of an SM, beside the shared memory of the programs on it."""
    storage_bytes: Mapping[str, int]
    """Of each tensor argument's allocation."""
    known: Traffic | None
    """Bytes that the launch requests, where host code built the data."""
    shared: SharedSectors
    """Bytes that stores request beyond their sectors: their instructions share them."""
    refetched_bytes: int
    """Bytes that copies past the L1 fetch again."""
    boxes: Boxes
    """What TMA copies request beyond the sectors of their elements."""


def planned_launches(derivation: Derivation, machine: Machine, gpu: GPUTarget, sizes: list[int]) -> list[PlannedLaunch]:
    """Return the Triton launches, each with the numbers of its arguments' storages.

    The bytes of the storages are added to `sizes`.
    """
    derived, captured = derivation.derived, derivation.captured
    numbers: dict[int, int] = {}
    found: list[PlannedLaunch] = []
    numbered = itertools.count()
    four = zip(captured.events, derived.launches, derived.kernels, derivation.resources, strict=True)
    for event, launch, kernel, used in four:
        if not isinstance(event, CapturedLaunch):
            continue
        moved = captured.moved.get(next(numbered))
        contents = _contents(moved, derived.values)
        if kernel is None:
            continue
        storage = _storages(event, captured.values, numbers, sizes)
        arguments = frozenset(storage)
        warps = int(event.options.get("num_warps", DEFAULT_WARPS))
        shared_bytes = launch.shared_bytes or 0
        at_once = occupancy(machine, warps=warps, registers=launch.registers, shared_bytes=shared_bytes)
        cache_bytes = l1_bytes(machine, warps=warps, registers=launch.registers, shared_bytes=shared_bytes)
        spills = launch_spills(used, warps=warps, at_once=at_once, l1_bytes=cache_bytes) if used else None
        if spills:
            storage[LOCAL_MEMORY] = _storage_of_spills(spills, numbers, sizes)
        touches, programs = launch_touches(event, captured.values, gpu)
        text = first_ir(event, captured.values, gpu).text
        aged = _aged(text, at_once, machine, warps)
        place = partial(
            replay,
            event.name,
            touches,
            programs,
            at_once.programs,
            known=arguments,
            concurrent="ttg.warp_specialize" in text,
            aged=aged,
            memory_bound=not has_matmul(text),
            spills=spills,
            contents=contents,
            sms=machine.sms,
            executed=cache(partial(executed_launch, event, captured.values, gpu, moved, touches, arguments)),
        )
        found.append(
            PlannedLaunch(
                launch=launch,
                traffic=kernel,
                at_once=at_once,
                warps=warps,
                plan=LaunchPlan(place, storage, in_step=aged is None and has_matmul(text)),
                by_l1=_loads_by_l1(touches, used),
                shared_lines=tuple(lines_of_touches(touches, used.lines if used else ())),
                written_apart=tuple(written_apart(touches, used.narrow_stores if used else ())),
                l1_bytes=cache_bytes,
                storage_bytes={name: sizes[number] for name, number in storage.items()},
                known=launch.requested if contents.elements else None,
                shared=shared_sectors(used, kernel, touches, derived) if used else SharedSectors(),
                refetched_bytes=refetched_bytes(used, kernel, derived.values) if used else 0,
                boxes=tma_boxes(touches, programs, kernel, derived),
            )
        )
    return found


def _storages(event: CapturedLaunch, values: Mapping[str, int], numbers: dict[int, int], sizes: list[int]) -> dict[str, int]:
    """Return the number of the storage of each tensor argument; add those not seen."""
    storage: dict[str, int] = {}
    for name, tensor in _tensors(event.arguments):
        if tensor.storage not in numbers:
            numbers[tensor.storage] = len(sizes)
            sizes.append(integer_at(tensor.storage_bytes, values))
        storage[name] = numbers[tensor.storage]
    return storage


def _contents(moved: Moved | str | None, values: Mapping[str, int]) -> KnownContents:
    """Return the numbers that a launch loads and that are known.

    Host code built them, or -p gives them. Zeros that stand for contents not given are unknown: by them, a gather would read
    one row.
    """
    given = {name: value for name, value in values.items() if "@" in name}
    return KnownContents(moved.contents if isinstance(moved, Moved) and moved.caveat != INVENTED else {}, given)


def _storage_of_spills(spills: LaunchSpills, numbers: dict[int, int], sizes: list[int]) -> int:
    """Return the number of the storage of local memory, which all launches share."""
    if LOCAL_STORAGE not in numbers:
        numbers[LOCAL_STORAGE] = len(sizes)
        sizes.append(0)
    number = numbers[LOCAL_STORAGE]
    sizes[number] = max(sizes[number], spills.bytes_at_once)
    return number


def _aged(text: str, at_once: Occupancy, machine: Machine, warps: int) -> AgedSm | None:
    """Return how an SM serves its programs by age; None where it serves all alike."""
    rates = rates_by_age(text, machine, at_once.per_sm, warps)
    return AgedSm(rates) if min(rates, default=1.0) < 1 else None


def _loads_by_l1(touches: Sequence[Touch], used: Resources | None) -> tuple[Eviction | None, ...]:
    loads = used.loads if used else None
    return (None,) * len(touches) if loads is None else tuple(loads_by_l1(touches, loads))


def served_by_l1(one: PlannedLaunch, replayed: Replay, machine: Machine) -> L1Replay | None:
    """Return what the L1s serve; None for a launch too large to replay."""
    through: list[Eviction | None] = [one.by_l1[number] for number in replayed.numbers]
    if not any(through):
        return L1Replay()
    often = waits(replayed.executions, replayed.durations.size)
    return replay_l1(
        replayed.accesses,
        replayed.executed or replayed.executions,
        through,
        placed_by_ends(replayed.durations, often, one.at_once.programs),
        one.plan.storage,
        sms=machine.sms,
        capacity_bytes=one.l1_bytes,
        shared=[one.shared_lines[number] for number in replayed.numbers],
        apart=[one.written_apart[number] for number in replayed.numbers],
        threads=LANES * one.warps,
        local=replayed.local,
        durations=replayed.durations,
    )


def _tensors(arguments: Mapping[str, Any]) -> list[tuple[str, TensorValue]]:
    """Return the tensor arguments of a launch under the names that its accesses use."""
    found: list[tuple[str, TensorValue]] = []
    for name, value in arguments.items():
        items = items_of(value)
        if isinstance(value, TensorValue):
            found.append((name, value))
        elif isinstance(value, DescriptorValue):
            found.append((name, value.base))
        elif items is not None:
            found += _tensors({f"{name}[{index}]": item for index, item in enumerate(items)})
    return found
