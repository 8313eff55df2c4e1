"""Derive one launch from its IR, and describe a torch operator between launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy
from triton.backends.compiler import GPUTarget

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.ir import Count, KernelTraffic, Limit
from ioaware.capture.capture import Capture
from ioaware.compilation.execution.program_values import Moved
from ioaware.compilation.launch_hash import launch_hash, tma_instructions
from ioaware.compilation.launch_limits import launch_failure
from ioaware.compilation.launch_traffic import kernel_traffic
from ioaware.compilation.launches import CapturedLaunch, CapturedOperator, Event
from ioaware.compilation.resource_usage import Resources
from ioaware.derivation.data_dependent import LaunchUnknowns
from ioaware.derivation.launch_formulas import Formulas, formulas_of, value_at
from ioaware.display.work_deadline import step
from ioaware.errors import UsageError
from ioaware.fakegpu.aten.aten_traffic import NOTE
from ioaware.result import Launch
from ioaware.symints.guards import Condition, ParamFacts


@dataclass(frozen=True, slots=True)
class DerivedLaunch:
    """Launch or operator with its formulas; `traffic` is the IR analysis of a launch."""

    launch: Launch
    formulas: Formulas
    traffic: KernelTraffic | None = None
    failure: str | None = None
    """Reason why the GPU cannot launch it."""
    holds: tuple[Condition, ...] = ()
    moved: Moved | None = None
    """Bytes at the index tensors that host code built.

    They are given where the formulas depend on data.
    """
    resources: Resources | None = None
    """What its machine code uses."""


def derive_event(
    event: Event, captured: Capture, gpu: GPUTarget, facts: ParamFacts, values: Mapping[str, int], loaded: LaunchUnknowns
) -> DerivedLaunch:
    """Return the formulas of an event; `loaded` knows the events before it."""
    step()
    if isinstance(event, CapturedOperator):
        loaded.operator(event)
        return _operator(event, captured.values)
    grid = tuple(evaluate(extent, captured.values) for extent in event.grid)
    if min(grid, default=0) < 0:
        raise UsageError(f"{event.name} is launched on a negative grid: {grid}", "Give a grid of 1 or more programs.")
    kernel = loaded.launch(event, kernel_traffic(event, captured.values, gpu, facts))
    formulas = formulas_of(kernel)
    holds = conditions_of(event, captured)
    wrapped = [limit for limit in kernel.limits if limit.value.symbols <= values.keys() and limit.broken(values)]
    launch = Launch(
        kernel=event.name,
        grid=grid,
        requested=formulas.traffic(values),
        flops=value_at(formulas.flops, values),
        matmul_types=kernel.matmul_types,
        exact=kernel.exact and not wrapped,
        notes=(*event.notes, *(_wrap_note(limit, values) for limit in wrapped), *kernel.notes),
        conditions=tuple(map(str, holds)),
        configuration=event.configuration,
        parameters=event.parameters or None,
        tma_loads=tma_instructions(kernel.accesses, "read", gpu),
        tma_stores=tma_instructions(kernel.accesses, "write", gpu),
        ir_hash=launch_hash(event, captured.values, gpu),
    )
    return DerivedLaunch(launch, formulas, kernel, holds=holds)


def _wrap_note(limit: Limit, values: Mapping[str, int]) -> str:
    """Return a note where an integer wraps around, or a loop steps down.

    The formulas ignore it.
    """
    return f"{limit.reason}, which the counts ignore: {limit.value} is {limit.value.evaluate(values)}"


def _operator(event: CapturedOperator, values: Mapping[str, int]) -> DerivedLaunch:
    """Return a torch operator as a launch; its sectors are unknown."""
    zero = Count(sympy.S.Zero)
    products = zero if event.flops is None else Count(event.flops)
    formulas = Formulas(Count(event.read_bytes), Count(event.write_bytes), zero, products, None, None)
    moved = replace(formulas.traffic(values), atomic_bytes=None)
    flops = None if event.flops is None else value_at(products, values)
    types = (event.matmul_type,) if event.matmul_type else ()
    launch = Launch(event.name, origin="torch", requested=moved, flops=flops, matmul_types=types, exact=False, notes=(NOTE,))
    return DerivedLaunch(launch, formulas)


def launchable(part: DerivedLaunch, gpu: GPUTarget) -> DerivedLaunch:
    """Return the launch, marked not exact with the reason if the GPU refuses it."""
    failure = launch_failure(part.launch.grid, part.launch.shared_bytes, gpu)
    if failure is None:
        return part
    return replace(part, launch=replace(part.launch, exact=False, notes=(*part.launch.notes, failure)), failure=failure)


def conditions_of(launch: CapturedLaunch, captured: Capture) -> tuple[Condition, ...]:
    """Return the conditions of one launch.

    They are branches of the host code, and its own constexprs.
    """
    constants = {condition.holds for condition in launch.conditions}
    given = captured.validity.conditions if captured.validity else ()
    return tuple(c for c in given if c.holds in constants or not c.reason.startswith("constexpr"))
