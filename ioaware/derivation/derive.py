"""Derive formulas of memory traffic.

A target's launches are captured, compiled to Triton IR and analysed. Needs no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from triton.backends.compiler import GPUTarget

from ioaware.capture.capture import DEFAULT_GPU, Capture, capture
from ioaware.compilation.launches import CapturedLaunch, launch_configuration
from ioaware.compilation.resource_usage import MachineCode, Resources
from ioaware.derivation.compulsory import cold_cache_bytes, compulsory_of_launches
from ioaware.derivation.data_dependent import LaunchUnknowns, check_unknowns, unknowns
from ioaware.derivation.derived import Derived
from ioaware.derivation.derived_launch import DerivedLaunch, derive_event, launchable
from ioaware.derivation.launch_additions import with_counters, with_index_data, with_resources
from ioaware.derivation.launch_formulas import Formulas, add_up
from ioaware.environment import software_environment
from ioaware.fakegpu.autotuning import TUNED, Override, chooses, no_choice_error
from ioaware.result import ParamValue, Traffic, total
from ioaware.symints.guards import param_facts
from ioaware.targets.module_state import module_state_restored
from ioaware.targets.target import Target, compulsory_bytes
from ioaware.torchcompile.compile_hooks import compiled_code_forgotten

NO_KERNEL = "no Triton kernel is launched: the bytes of torch's operators are assumed, and none is exact"


def derive(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue | Override] | None = None,
    machine_code: bool = True,
    counters: bool = False,
    data: Mapping[str, int] | None = None,
    check: bool = False,
    eager: bool = False,
) -> Derived:
    """Derive closed formulas of the bytes that the work of `target` requests.

    Their values at `params` are derived too.

    Kernels are compiled for `gpu`. `autotune` selects the configuration of autotuned kernels by value, as in `{"BLOCK": 64}`;
    the default is their first. `machine_code` adds registers and shared memory of each launch, which is the slow part.
    `counters` adds the L1 requests of each launch under the names of Nsight Compute, or a note. `data` gives values to
    unknowns, by their names in the formulas. `check` counts each exact launch again by plain interpretation at the given
    values, in 20 s of CPU for all launches; a launch that differs is marked not exact, and notes name what was not checked.
    `eager` runs functions of torch.compile uncompiled. Raises `UsageError` for a target that cannot run or launches nothing,
    and for a kernel that does not compile or contains an unsupported operation.
    """
    values = target.resolve(params)
    captured, parts = _derive_launchable(target, values, gpu, autotune or {}, machine_code, data or {}, eager)
    said: tuple[str, ...] = ()
    if check:
        from ioaware.derivation.check import cross_check

        parts, outcome = cross_check(parts, captured, {**captured.values, **(data or {})}, gpu)
        said = (outcome,)
    if counters:
        parts = [with_counters(part, event, captured, gpu) for part, event in zip(parts, captured.events, strict=True)]
    derived = _assemble(target, values, gpu, data, captured, parts)
    return replace(derived, notes=(*derived.notes, *said))


@dataclass(frozen=True, slots=True)
class Derivation:
    """Derived target with its captured launches and their resources."""

    derived: Derived
    captured: Capture
    resources: tuple[Resources | None, ...]


def derive_with_launches(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue | Override] | None = None,
    data: Mapping[str, int] | None = None,
) -> Derivation:
    """Derive as `derive` does, and keep the launches. Raises `UsageError` as it does."""
    values = target.resolve(params)
    captured, parts = _derive_launchable(target, values, gpu, autotune or {}, True, data or {}, eager=False)
    derived = _assemble(target, values, gpu, data, captured, parts)
    return Derivation(derived, captured, tuple(part.resources for part in parts))


def _derive_launchable(
    target: Target,
    values: dict[str, ParamValue],
    gpu: GPUTarget,
    autotune: Mapping[str, ParamValue | Override],
    machine_code: bool,
    data: Mapping[str, int],
    eager: bool,
) -> tuple[Capture, list[DerivedLaunch]]:
    """Derive the launches in the first configurations that the GPU can launch."""
    refused: dict[str, str | None] = {}
    derived = partial(_derive_launches, target, values, gpu, autotune, refused, machine_code, data, eager)
    captured, parts = derived()
    while too_large := _oversized_configurations(captured, parts):  # Triton's autotuner passes over those, too
        refused |= too_large
        captured, parts = derived()
    return captured, parts


def _derive_launches(
    target: Target,
    values: dict[str, ParamValue],
    gpu: GPUTarget,
    autotune: Mapping[str, ParamValue | Override],
    refused: dict[str, str | None],
    machine_code: bool,
    data: Mapping[str, int],
    eager: bool,
) -> tuple[Capture, list[DerivedLaunch]]:
    """Capture the launches and derive each of them.

    The `refused` configurations of autotuned kernels are left out.
    """
    with MachineCode(gpu) as code, module_state_restored(), compiled_code_forgotten():
        start = code.start if machine_code else None
        captured = capture(target, values, autotune=autotune, gpu=gpu, refused=refused, eager=eager, on_launches=start)
        chosen = [name for name, value in autotune.items() if not isinstance(value, Override)]
        if chosen and not chooses(note for launch in captured.launches for note in launch.notes):
            raise no_choice_error(target.name, chosen)
        facts = param_facts(captured.validity.conditions if captured.validity else ())
        given_values = {**captured.values, **data}
        loaded = LaunchUnknowns(captured.values, gpu)
        parts = [derive_event(event, captured, gpu, facts, given_values, loaded) for event in captured.events]
        parts = with_index_data(parts, captured, gpu)
        check_unknowns(target.name, data, unknowns([part.traffic for part in parts], captured.values))
        if machine_code:
            parts = with_resources(parts, captured, code, gpu)
    return captured, [launchable(part, gpu) for part in parts]


def _oversized_configurations(captured: Capture, parts: Sequence[DerivedLaunch]) -> dict[str, str | None]:
    """Return the configurations that the GPU cannot launch, with the reason.

    They are those of autotuned kernels.
    """
    return {
        launch_configuration(event): part.failure
        for event, part in zip(captured.events, parts, strict=True)
        if isinstance(event, CapturedLaunch) and part.failure and any(TUNED in note for note in event.notes)
    }


def _assemble(
    target: Target,
    values: Mapping[str, ParamValue],
    gpu: GPUTarget,
    data: Mapping[str, int] | None,
    captured: Capture,
    parts: Sequence[DerivedLaunch],
) -> Derived:
    """Add up the launches into one result."""
    given = captured.validity.conditions if captured.validity else ()
    launches = [part.launch for part in parts if part.launch.origin == "triton"]
    operators = [part for part in parts if part.launch.origin == "torch"]
    floor, floor_notes = compulsory_bytes(target.name, values), ()
    requested = total(launch.requested for launch in launches)
    if floor is None:
        floor, floor_notes = compulsory_of_launches(captured, [part.traffic for part in parts])
        if floor and requested and _is_below(requested, floor):  # of a tensor that data point into, only a part is read
            floor, floor_notes = None, ("compulsory is unknown: data decide which part of a tensor is accessed",)
    formulas = add_up([part.formulas for part in parts if part.launch.origin == "triton"])
    return Derived(
        source="derive",
        target=target.name,
        params=values,
        requested=_together(formulas, [launch.requested for launch in launches]),
        assumed=_assumed(operators),
        compulsory=floor,
        flops=_sum_known([launch.flops for launch in launches]),
        exact=bool(launches) and all(launch.exact for launch in launches) and not captured.is_example,
        notes=(*captured.notes, *floor_notes, *(() if launches else (NO_KERNEL,))),
        conditions=tuple(map(str, given)),
        launches=tuple(part.launch for part in parts),
        environment=software_environment() | {"compiled_for": f"{gpu.backend}:{gpu.arch}"},
        formulas=formulas,
        assumed_formulas=_assumed_formulas(operators),
        kernels=tuple(part.traffic for part in parts),
        files=tuple(event.file if isinstance(event, CapturedLaunch) else None for event in captured.events),
        symbols=captured.values,
        holds=tuple(part.holds for part in parts),
        validity=captured.validity,
        data=data,
        cold_cache=cold_cache_bytes(captured, [part.traffic for part in parts]),
        configurations={
            event.name: event.alternatives
            for event in captured.events
            if isinstance(event, CapturedLaunch) and len(event.alternatives) > 1
        },
    )


def _is_below(requested: Traffic, floor: Traffic) -> bool:
    """Return whether fewer bytes are requested than the compulsory bytes."""
    pairs = ((requested.read_bytes, floor.read_bytes), (requested.write_bytes, floor.write_bytes))
    return any(asked is not None and least is not None and asked < least for asked, least in pairs)


def _assumed(operators: Sequence[DerivedLaunch]) -> Traffic | None:
    """Return the total bytes of torch operators."""
    formulas = _assumed_formulas(operators)
    return formulas and _together(formulas, [part.launch.requested for part in operators])


def _assumed_formulas(operators: Sequence[DerivedLaunch]) -> Formulas | None:
    """Return the total formulas of torch operators; None where there are none."""
    return add_up([part.formulas for part in operators]) if operators else None


def _together(formulas: Formulas, parts: Sequence[Traffic | None]) -> Traffic | None:
    """Return the sum of the parts with its formula.

    Why: adding numbers is faster than evaluating the formula.
    """
    moved = total(parts)
    return moved and replace(moved, read_formula=str(formulas.read_bytes), write_formula=str(formulas.write_bytes))


def _sum_known(values: Sequence[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None
