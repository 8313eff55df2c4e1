"""Plan the replay of each launch: programs, storages, spills, loads by the L1."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import KernelTraffic
from ioaware.compilation.compiled_loads import CompiledLoad
from ioaware.compilation.execution.program_values import INVENTED, Moved
from ioaware.compilation.launch_traffic import launch_touches
from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, items_of
from ioaware.compilation.resource_usage import Resources
from ioaware.compilation.triton_ir import first_ir, integer_at
from ioaware.derivation.derive import Derivation
from ioaware.derivation.machine_code_notes import refetched_bytes, shared_sector_bytes
from ioaware.machine import Machine
from ioaware.machine.occupancy import Occupancy, l1_bytes, occupancy
from ioaware.result import Launch, Traffic
from ioaware.simulation.addresses.known_contents import KnownContents
from ioaware.simulation.instruction_bound import next_oldest_rate
from ioaware.simulation.l1.l1_loads import loads_by_l1
from ioaware.simulation.l1.l1_replay import L1Reads, l1_reads
from ioaware.simulation.l1.l1_shape import L1Shape
from ioaware.simulation.launch_replay import Replay, replay
from ioaware.simulation.schedule import AgedSm
from ioaware.simulation.sequence import LaunchPlan
from ioaware.simulation.spills.launch_spills import LaunchSpills, launch_spills
from ioaware.simulation.spills.local_streams import LOCAL_MEMORY, LOCAL_STORAGE

DEFAULT_WARPS = 4


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """Launch with everything that its replay needs."""

    launch: Launch
    traffic: KernelTraffic
    at_once: Occupancy
    warps: int
    plan: LaunchPlan
    by_l1: tuple[bool, ...]
    """For each access whether it is a load through the L1."""
    shared_sector_bytes: int
    """Most bytes that stores request beyond their sectors.

    Their instructions share sectors.
    """
    known: Traffic | None = None
    """Bytes that the launch requests, where host code built the data."""
    refetched_bytes: int = 0
    """Bytes that copies past the L1 fetch again."""
    storage_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of each tensor argument's allocation."""
    l1_bytes: int = 0
    """L1 of an SM beside the shared memory of the programs on it."""


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
        contents = _contents(captured.moved.get(next(numbered)), derived.values)
        if kernel is None:
            continue
        storage: dict[str, int] = {}
        for name, tensor in _tensors(event.arguments):
            if tensor.storage not in numbers:
                numbers[tensor.storage] = len(sizes)
                sizes.append(integer_at(tensor.storage_bytes, captured.values))
            storage[name] = numbers[tensor.storage]
        warps = int(event.options.get("num_warps", DEFAULT_WARPS))
        at_once = occupancy(machine, warps=warps, registers=launch.registers, shared_bytes=launch.shared_bytes or 0)
        spills = _spills(used, warps, launch, at_once, machine)
        make = _replay(event, captured.values, gpu, at_once, frozenset(storage), machine, spills, contents)
        if spills:
            storage[LOCAL_MEMORY] = _storage_of_spills(spills, numbers, sizes)
        by_l1 = _loads_by_l1(event, captured.values, gpu, used.loads if used else None)
        shared = shared_sector_bytes(used, kernel, derived.values) if used else 0
        again = refetched_bytes(used, kernel, derived.values) if used else 0
        known = launch.requested if contents.elements else None
        bytes_of = {name: sizes[number] for name, number in storage.items()}
        l1, plan = _l1_shape(launch, at_once, machine).capacity_bytes, LaunchPlan(make, storage)
        found.append(PlannedLaunch(launch, kernel, at_once, warps, plan, by_l1, shared, known, again, bytes_of, l1))
    return found


def _contents(moved: Moved | str | None, values: Mapping[str, int]) -> KnownContents:
    """Return the numbers that a launch loads.

    Host code built them, or the call gave them.

    Zeros that stand for contents not given are left out: a gather would read one row.
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


def _spills(used: Resources | None, warps: int, launch: Launch, at_once: Occupancy, machine: Machine) -> LaunchSpills | None:
    """Return the spilled registers of a launch; None where there are none."""
    if used is None or not used.local_bytes or not used.cubin:
        return None
    return launch_spills(used.cubin, used.local_bytes, warps=warps, at_once=at_once, shape=_l1_shape(launch, at_once, machine))


def _l1_shape(launch: Launch, at_once: Occupancy, machine: Machine) -> L1Shape:
    return L1Shape(l1_bytes(machine, at_once.per_sm, launch.shared_bytes or 0), machine.l1_model)


def _loads_by_l1(
    event: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget, loads: Sequence[CompiledLoad] | None
) -> tuple[bool, ...]:
    touches, _ = launch_touches(event, values, gpu)
    return (False,) * len(touches) if loads is None else tuple(loads_by_l1(touches, loads))


def _replay(
    event: CapturedLaunch,
    values: Mapping[str, int],
    gpu: GPUTarget,
    at_once: Occupancy,
    known: frozenset[str],
    machine: Machine,
    spills: LaunchSpills | None,
    contents: KnownContents,
) -> Callable[[float], Replay]:
    touches, programs = launch_touches(event, values, gpu)
    text = first_ir(event, values, gpu).text
    concurrent = "ttg.warp_specialize" in text
    share = next_oldest_rate(text, machine)
    aged = AgedSm(at_once.per_sm, share) if share < 1 and at_once.per_sm > 1 else None
    slots = at_once.programs

    def make(skew: float) -> Replay:
        return replay(
            event.name,
            touches,
            programs,
            slots,
            known=known,
            concurrent=concurrent,
            aged=aged,
            spills=spills,
            contents=contents,
            skew=skew,
        )

    return make


def served_by_l1(one: PlannedLaunch, replayed: Replay, machine: Machine) -> L1Reads | None:
    """Return what the L1s serve; None for a launch too large to replay."""
    return l1_reads(
        replayed.accesses,
        replayed.executions,
        [one.by_l1[number] for number in replayed.numbers],
        replayed.programs,
        one.plan.storage,
        sms=machine.sms,
        shape=_l1_shape(one.launch, one.at_once, machine),
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
