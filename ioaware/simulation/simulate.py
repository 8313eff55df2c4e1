"""Simulate HBM traffic through a model of a named GPU's L2.

Needs no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import KernelTraffic
from ioaware.capture.capture import DEFAULT_GPU
from ioaware.compilation.compiled_loads import CompiledLoad
from ioaware.compilation.launch_traffic import launch_touches
from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, items_of
from ioaware.compilation.triton_ir import compiled, first_ir, integer_at
from ioaware.derivation.derive import Derivation, derive_with_launches
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import Override
from ioaware.fakegpu.cubin import resources
from ioaware.machine import Machine
from ioaware.machine.model import SECTOR_BYTES
from ioaware.machine.occupancy import Occupancy, l1_bytes, occupancy
from ioaware.result import Launch, ParamValue, Result, Traffic
from ioaware.simulation.instruction_bound import next_oldest_rate
from ioaware.simulation.l1 import L1Shape
from ioaware.simulation.l1_loads import loads_by_l1
from ioaware.simulation.l1_replay import L1Reads, l1_reads
from ioaware.simulation.launch_replay import DataDependentAccess, Replay, replay
from ioaware.simulation.schedule import AgedSm
from ioaware.simulation.sequence import LaunchPlan, LaunchTraffic, SequenceResult, run
from ioaware.simulation.simulation_result import LaunchSimulation, Range, Simulated, SpilledBytes
from ioaware.simulation.spills.launch_spills import LaunchSpills, launch_spills
from ioaware.simulation.spills.local_streams import LOCAL_MEMORY, LOCAL_STORAGE
from ioaware.targets.target import Target

SENSITIVE = 0.05
"""A range wider than this share of the number causes a warning."""
DEFAULT_WARPS = 4


@dataclass(frozen=True, slots=True)
class _PlannedLaunch:
    """Launch with everything that its replay needs."""

    launch: Launch
    traffic: KernelTraffic
    at_once: Occupancy
    warps: int
    plan: LaunchPlan
    by_l1: tuple[bool, ...]
    """For each access whether it is a load through the L1."""


def simulate(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    machine: Machine,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue | Override] | None = None,
    data: Mapping[str, int] | None = None,
    cold: bool = False,
    ranges: bool = True,
) -> Simulated:
    """Replay the launches of `target` through the L2 of `machine`.

    Kernels are compiled for `gpu`.

    `cold` empties the L2 before each launch and does not count what a launch leaves dirty, as `measure` does. Otherwise the L2
    keeps its contents between launches, and all that is dirty after the last one counts as written. `autotune` and `data` are
    as in `derive`. Raises `UsageError` for what `derive` cannot derive or bound, and for launches too large to replay.
    """
    derivation = derive_with_launches(target, params, gpu=gpu, autotune=autotune, data=data)
    derived, sizes = derivation.derived, list[int]()
    launches = _launches(derivation, machine, gpu, sizes)
    try:
        replays = [one.plan.replay(0.0) for one in launches]
        _check_bounds(launches, replays, derived)
        done = run(
            [one.plan for one in launches],
            replays,
            sizes,
            machine.level("l2").capacity_bytes,
            machine.l2_model,
            cold=cold,
            ranges=ranges,
        )
    except ValueError as error:
        remedy = (
            "Simulate a kernel whose loops the parameters decide." if "data decide" in str(error) else "Choose smaller sizes."
        )
        raise UsageError(f"{target.name} cannot be simulated: {error}", remedy) from error
    simulated = done.launches
    served = [_by_l1(one, replayed, machine) for one, replayed in zip(launches, done.replays, strict=True)]
    usable = int(machine.level("l2").capacity_bytes * machine.l2_model.reach / machine.l2_model.partitions)
    simulations = [
        replace(_simulation(one, end, replayed, reads, writes, derived), l1=l1, usable_l2_bytes=usable, spills=_moved(replayed))
        for one, end, replayed, reads, writes, l1 in zip(
            launches, simulated, done.replays, done.reads, done.writes, served, strict=True
        )
    ]
    return _result(derived, machine, launches, done, simulations, cold=cold)


def l1_of_launches(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    machine: Machine,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue | Override] | None = None,
) -> list[tuple[Launch, L1Reads | None]]:
    """Return each Triton launch with what the L1s serve; None where it is not known.

    The L2 is not replayed. Raises `UsageError` for what `derive` cannot derive.
    """
    launches = _launches(derive_with_launches(target, params, gpu=gpu, autotune=autotune), machine, gpu, [])
    return [(one.launch, _l1_without_l2(one, machine)) for one in launches]


def _l1_without_l2(one: _PlannedLaunch, machine: Machine) -> L1Reads | None:
    if not any(one.by_l1):
        return L1Reads(0, 0)
    try:
        return _by_l1(one, one.plan.replay(0.0), machine)
    except ValueError:
        return None


def _launches(derivation: Derivation, machine: Machine, gpu: GPUTarget, sizes: list[int]) -> list[_PlannedLaunch]:
    """Return the Triton launches, each with the numbers of its arguments' storages.

    The bytes of the storages are added to `sizes`.
    """
    derived, captured = derivation.derived, derivation.captured
    numbers: dict[int, int] = {}
    found: list[_PlannedLaunch] = []
    four = zip(captured.events, derived.launches, derived.kernels, derivation.resources, strict=True)
    for event, launch, kernel, used in four:
        if not isinstance(event, CapturedLaunch) or kernel is None:
            continue
        storage: dict[str, int] = {}
        for name, tensor in _tensors(event.arguments):
            if tensor.storage not in numbers:
                numbers[tensor.storage] = len(sizes)
                sizes.append(integer_at(tensor.storage_bytes, captured.values))
            storage[name] = numbers[tensor.storage]
        warps = int(event.options.get("num_warps", DEFAULT_WARPS))
        at_once = occupancy(machine, warps=warps, registers=launch.registers, shared_bytes=launch.shared_bytes or 0)
        spills = _spills(event, captured.values, gpu, launch, at_once, machine)
        make = _replay(event, captured.values, gpu, at_once, frozenset(storage), machine, spills)
        if spills:
            storage[LOCAL_MEMORY] = _storage_of_spills(spills, numbers, sizes)
        by_l1 = _loads_by_l1(event, captured.values, gpu, used.loads if used else None)
        found.append(_PlannedLaunch(launch, kernel, at_once, warps, LaunchPlan(make, storage), by_l1))
    return found


def _storage_of_spills(spills: LaunchSpills, numbers: dict[int, int], sizes: list[int]) -> int:
    """Return the number of the storage of local memory, which all launches share."""
    if LOCAL_STORAGE not in numbers:
        numbers[LOCAL_STORAGE] = len(sizes)
        sizes.append(0)
    number = numbers[LOCAL_STORAGE]
    sizes[number] = max(sizes[number], spills.bytes_at_once)
    return number


def _spills(
    event: CapturedLaunch,
    values: Mapping[str, int],
    gpu: GPUTarget,
    launch: Launch,
    at_once: Occupancy,
    machine: Machine,
) -> LaunchSpills | None:
    """Return the spilled registers of a launch; None where there are none."""
    if not launch.local_bytes:
        return None
    kernel = compiled(event, values, gpu)
    if "cubin" not in kernel.asm or not (local_bytes := resources(kernel.asm["cubin"])[1]):
        return None
    shape = _l1_shape(launch, at_once, machine)
    return launch_spills(kernel.asm["cubin"], local_bytes, warps=kernel.metadata.num_warps, at_once=at_once, shape=shape)


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
) -> Callable[[float], Replay]:
    touches, programs = launch_touches(event, values, gpu)
    text = first_ir(event, values, gpu).text
    concurrent = "ttg.warp_specialize" in text
    share = next_oldest_rate(text, machine)
    aged = AgedSm(at_once.per_sm, share) if share < 1 and at_once.per_sm > 1 else None
    slots = at_once.programs

    def make(skew: float) -> Replay:
        return replay(
            event.name, touches, programs, slots, known=known, concurrent=concurrent, aged=aged, spills=spills, skew=skew
        )

    return make


def _by_l1(one: _PlannedLaunch, replayed: Replay, machine: Machine) -> L1Reads | None:
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


def _moved(replayed: Replay) -> SpilledBytes | None:
    """Return what the spilled registers of all programs move."""
    local, programs = replayed.local, replayed.durations.size
    if local is None:
        return None
    return SpilledBytes(*(programs * one for one in (local.spilled_bytes, local.refilled_bytes, local.loaded_bytes)))


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


def _simulation(
    one: _PlannedLaunch,
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
        data_dependent=tuple(dict.fromkeys(access.tensor for access in replayed.data_dependent)),
    )


def _widen_ranges(
    one: _PlannedLaunch, access: DataDependentAccess, derived: Derived, read: Range, write: Range
) -> tuple[Range, Range]:
    """Widen the ranges by a data-dependent access.

    At least nothing of it is moved, at most every sector that it touches. Where data decide the sectors, each lane may touch
    its own.
    """
    known, values = one.traffic.accesses[access.number], derived.values
    lanes = _requested_bytes(access, one.traffic, one.launch, derived) // known.element_bytes
    most = lanes * max(SECTOR_BYTES, known.element_bytes)
    sectors = known.sectors
    if sectors is not None and known.sectors_exact and sectors.symbols <= values.keys():
        most = min(most, SECTOR_BYTES * int(sectors.evaluate(values)))  # pyright: ignore[reportArgumentType]
    if access.kind != "write":
        read = (read[0], None if read[1] is None else read[1] + most)
    if access.kind != "read":
        write = (write[0], None if write[1] is None else write[1] + most)
    return read, write


def _check_bounds(launches: Sequence[_PlannedLaunch], replays: Sequence[Replay], derived: Derived) -> None:
    """Raise `UsageError` for an access without a bound."""
    for one, replayed in zip(launches, replays, strict=True):
        for access in replayed.data_dependent:
            _requested_bytes(access, one.traffic, one.launch, derived)


def _requested_bytes(access: DataDependentAccess, kernel: KernelTraffic, launch: Launch, derived: Derived) -> int:
    """Return the most bytes that an access requests.

    Raises `UsageError` where data decide them.
    """
    bytes_, values = kernel.accesses[access.number].bytes, derived.values
    if missing := ", ".join(sorted(bytes_.symbols - values.keys())):
        raise UsageError(
            f"{derived.target} cannot be bounded: {launch.kernel} depends on {missing}",
            f"Give it a value, as in -p '{missing.split(', ')[0]}=0'.",
        )
    return int(bytes_.evaluate(values))  # pyright: ignore[reportArgumentType]


def _result(
    derived: Derived,
    machine: Machine,
    launches: Sequence[_PlannedLaunch],
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
        requested = _with_spills(_behind_l1(launch.requested, simulation.l1), simulation.spills)
        out.append(replace(launch, requested=requested, hbm=Traffic(end.read_bytes, end.write_bytes), exact=False))
        found.append(simulation)
    reads, writes = sum(one.read_bytes for one in simulated), sum(one.write_bytes for one in simulated)
    known = {f.name: getattr(derived, f.name) for f in fields(Result)}
    ranges = [_sum_ranges([getattr(one, name) for one in simulations]) for name in ("read_range", "write_range")]
    behind_l1 = _behind_l1(derived.requested, _sum_served(simulations))
    for one in simulations:
        behind_l1 = _with_spills(behind_l1, one.spills)
    known |= {
        "source": "simulate",
        "requested": behind_l1,
        "hbm": Traffic(reads, writes),
        "exact": False,
        "launches": tuple(out),
        "notes": (*derived.notes, *_notes(machine, reads, writes, ranges, simulations, done, cold=cold)),
    }
    return Simulated(
        **known, machine=machine.name, cold=cold, simulations=tuple(found), read_range=ranges[0], write_range=ranges[1]
    )


def _sum_served(simulations: Sequence[LaunchSimulation]) -> L1Reads:
    known = [one.l1 for one in simulations if one.l1]
    return L1Reads(sum(one.accessed_bytes for one in known), sum(one.served_bytes for one in known))


def _behind_l1(requested: Traffic | None, l1: L1Reads | None) -> Traffic | None:
    """Return the requests of a launch without the sectors that the L1 serves."""
    if requested is None or requested.read_sector_bytes is None or l1 is None:
        return requested
    return replace(requested, read_sector_bytes=max(0, requested.read_sector_bytes - l1.served_bytes))


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


def _l1_note(machine: Machine, simulations: Sequence[LaunchSimulation]) -> str:
    if any(one.l1 is None for one in simulations):
        return "a launch is too large to replay through the L1: all of its requests are counted"
    served = sum(one.l1.served_bytes for one in simulations if one.l1)
    return f"the L1s serve {served:,} bytes of the loads ({machine.l1_model.source})"


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
        "programs of a wave advance in lockstep by requested bytes",
        _l1_note(machine, simulations),
    ]
    if any(one.spills for one in simulations):
        notes.append("spilled registers are counted, from machine code: launches say how many bytes they store and load")
    if done.every > 1:
        notes.append(f"1 of {done.every} lines of the L2 is replayed, in a cache as much smaller: HBM bytes are estimated")
    if done.skew_refused:
        notes.append(f"ranges leave out that programs may drift apart: {done.skew_refused}")
    if by_data := dict.fromkeys(tensor for one in simulations for tensor in one.data_dependent):
        notes.append(f"data decide where {', '.join(by_data)} are accessed: those bytes are in the ranges alone")
    for name, number, (low, high) in (("reads", reads, ranges[0]), ("writes", writes, ranges[1])):
        if high is None or high - low > SENSITIVE * max(number, 1):
            most = "any number" if high is None else f"{high:,}"
            notes.append(f"HBM {name} are uncertain: {low:,} to {most} bytes over the possible capacities and skews")
    if cold:
        notes.append("the L2 is emptied before each launch; lines that a launch leaves dirty are not counted as written")
    return notes
