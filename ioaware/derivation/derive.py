"""Derive formulas of memory traffic.

A target's launches are captured, compiled to Triton IR and analysed. Needs no GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import sympy
from triton.backends.compiler import GPUTarget

from ioaware.analysis.formulas.evaluate import OutsideFormulaError, evaluate
from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.analysis.formulas.functions import free_symbols
from ioaware.analysis.ir import Count, KernelTraffic, Limit
from ioaware.capture.capture import DEFAULT_GPU, Capture, capture
from ioaware.capture.validity import Validity
from ioaware.compilation.execution.program_values import Moved
from ioaware.compilation.launch_hash import launch_hash, tma_instructions
from ioaware.compilation.launch_limits import launch_failure
from ioaware.compilation.launch_traffic import kernel_traffic
from ioaware.compilation.launches import CapturedLaunch, CapturedOperator, Event, launch_configuration
from ioaware.compilation.resource_usage import MachineCode
from ioaware.compilation.triton_ir import first_ir
from ioaware.derivation.compulsory import compulsory_of_launches
from ioaware.derivation.data_dependent import check_unknowns, missing_values_error, unknowns
from ioaware.derivation.machine_code_notes import machine_code_notes
from ioaware.environment import software_environment
from ioaware.errors import UsageError
from ioaware.fakegpu.aten_traffic import NOTE
from ioaware.fakegpu.autotuning import TUNED
from ioaware.result import Launch, ParamValue, Result, Traffic, total
from ioaware.symints.guards import Condition, ParamFacts, param_facts
from ioaware.targets.module_state import module_state_restored
from ioaware.targets.target import Target, compulsory_bytes
from ioaware.torchcompile.compile_hooks import compiled_code_forgotten


@dataclass(frozen=True, slots=True)
class Formulas:
    """Bytes and FLOPs of one or more launches as formulas of the symbolic parameters.

    None means unknown.
    """

    read_bytes: Count
    write_bytes: Count
    atomic_bytes: Count
    flops: Count
    read_sector_bytes: Count | None
    write_sector_bytes: Count | None

    def __add__(self, other: Formulas) -> Formulas:
        return Formulas(
            self.read_bytes + other.read_bytes,
            self.write_bytes + other.write_bytes,
            self.atomic_bytes + other.atomic_bytes,
            self.flops + other.flops,
            _sum(self.read_sector_bytes, other.read_sector_bytes),
            _sum(self.write_sector_bytes, other.write_sector_bytes),
        )

    def traffic(self, values: Mapping[str, int]) -> Traffic:
        """Return the bytes at these values, with the formulas.

        None where a value depends on data.
        """
        return Traffic(
            read_bytes=_value(self.read_bytes, values),
            write_bytes=_value(self.write_bytes, values),
            atomic_bytes=_value(self.atomic_bytes, values),
            read_sector_bytes=_value(self.read_sector_bytes, values),
            write_sector_bytes=_value(self.write_sector_bytes, values),
            read_formula=str(self.read_bytes),
            write_formula=str(self.write_bytes),
        )


@dataclass(frozen=True, slots=True)
class Derived(Result):
    """`Result` with its formulas: `formulas` in total, `kernels` per launch.

    `kernels` has None for a torch operator.

    They are not part of the JSON, which has them as text.
    """

    formulas: Formulas | None = None
    kernels: tuple[KernelTraffic | None, ...] = ()
    files: tuple[str | None, ...] = ()
    """The source file of each launch's kernel; lines of accesses may name another copy, from which a cache was filled."""
    symbols: Mapping[str, int] | None = None
    """The symbolic parameters with their given values."""
    holds: tuple[tuple[Condition, ...], ...] = ()
    """The conditions of the formulas, per launch."""
    validity: Validity | None = None
    data: Mapping[str, int] | None = None
    """Given values of unknowns, by their names in the formulas."""

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Names in the formulas of values that are loaded from memory."""
        return unknowns(self.kernels, self.symbols or ())

    @property
    def values(self) -> dict[str, int]:
        """Values of the symbolic parameters, and of the unknowns that have one."""
        return {**(self.symbols or {}), **(self.data or {})}

    def evaluate(self, **values: Number) -> dict[str, Number]:
        """Evaluate bytes and FLOPs at other values of the symbolic parameters.

        The values are ints, or int64 arrays of many points.

        Omitted parameters keep their value. Unknowns are set by name, as in `evaluate(rows=512, **{"Lock@layer_norm.py:179":
        0})`. Raises `UsageError` for an undefined name and for an unknown without a value. It also does where a condition of
        the formulas fails: another constexpr, or another branch of the host code.
        """
        symbols, formulas = dict(self.symbols or {}), cast(Formulas, self.formulas)
        if unknown := values.keys() - symbols.keys() - frozenset(self.unknowns):
            raise UsageError(
                f"{self.target} has no symbolic parameter {', '.join(sorted(unknown))}",
                f"Symbolic here: {', '.join((*symbols, *self.unknowns)) or 'none'}. The notes say why others were specialised.",
            )
        point: dict[str, Number] = {**self.values, **values}
        if self.validity:
            self.validity.check({name: point[name] for name in symbols})
        for kernel in self.kernels:
            for limit in kernel.limits if kernel else ():
                if limit.value.symbols <= point.keys() and limit.broken(point):
                    raise UsageError(
                        f"the formulas of {self.target} hold for {limit}: {limit.reason} would wrap around",
                        "Give sizes within this range.",
                    )
        counts = {"read_bytes": formulas.read_bytes, "write_bytes": formulas.write_bytes}
        counts |= {"atomic_bytes": formulas.atomic_bytes, "flops": formulas.flops}
        if unset := frozenset[str]().union(*(count.symbols for count in counts.values())) - point.keys():
            raise missing_values_error(self.target, unset)
        return {name: count.evaluate(point) for name, count in counts.items()}

    def _repr_html_(self) -> str:
        """Return the result's table for a notebook, and its formulas in MathML."""
        from ioaware.analysis.formulas.iverson import with_brackets
        from ioaware.display.mathml import formulas_html

        rows = [(kernel.kernel, kernel.read_bytes, kernel.write_bytes) for kernel in self.kernels if kernel]
        if len(rows) > 1 and self.formulas:
            rows.append(("total", self.formulas.read_bytes, self.formulas.write_bytes))
        typeset = [(name, with_brackets(reads.expr), with_brackets(writes.expr)) for name, reads, writes in rows]
        conditions = [str(condition) for condition in self.validity.conditions] if self.validity else []
        return Result._repr_html_(self) + formulas_html(typeset, conditions)  # pyright: ignore[reportPrivateUsage]

    def _limits_of(self, kernel: KernelTraffic | None) -> list[str]:
        """Return the largest sizes of a launch.

        32-bit integers do not wrap around at them, and CUDA can launch its grid.
        """
        if kernel is None:
            return []
        grids = [limit for limit in self.validity.limits if limit.reason.endswith(f" {kernel.kernel}")] if self.validity else []
        return list(dict.fromkeys([*map(str, kernel.limits), *map(str, grids)]))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; `conditions` include the largest sizes of each launch."""
        data = Result.to_dict(self)
        limits = [self._limits_of(kernel) for kernel in self.kernels]
        for launch, added in zip(data["launches"], limits, strict=True):
            if added:
                launch["conditions"] = [*launch.get("conditions", ()), *added]
        if together := dict.fromkeys(limit for added in limits for limit in added):
            data["conditions"] = list(dict.fromkeys([*data.get("conditions", ()), *together]))
        for name in ("formulas", "kernels", "files", "symbols", "holds", "validity", "data"):
            data.pop(name, None)
        return data


def derive(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue] | None = None,
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
    values; a launch that differs is marked not exact. `eager` runs functions of torch.compile
    uncompiled. Raises `UsageError` for a target that cannot run or launches nothing, and for a kernel that does not compile or
    contains an unsupported operation.
    """
    values = target.resolve(params)
    refused: dict[str, str | None] = {}
    derived = partial(_derive_launches, target, values, gpu, autotune or {}, refused, machine_code, data or {}, eager)
    captured, parts = derived()
    while too_large := _oversized_configurations(captured, parts):  # Triton's autotuner passes over those, too
        refused |= too_large
        captured, parts = derived()
    if check:
        point = {**captured.values, **(data or {})}
        numbers = itertools.count()
        moved = [captured.moved.get(next(numbers)) if isinstance(event, CapturedLaunch) else None for event in captured.events]
        triples = zip(parts, captured.events, moved, strict=True)
        parts = [_cross_check(part, event, at_data, point, gpu) for part, event, at_data in triples]
    if counters:
        parts = [_with_counters(part, event, captured, gpu) for part, event in zip(parts, captured.events, strict=True)]
    return _assemble(target, values, gpu, data, captured, parts)


def _derive_launches(
    target: Target,
    values: dict[str, ParamValue],
    gpu: GPUTarget,
    autotune: Mapping[str, ParamValue],
    refused: dict[str, str | None],
    machine_code: bool,
    data: Mapping[str, int],
    eager: bool,
) -> tuple[Capture, list[_Part]]:
    """Capture the launches and derive each of them.

    The `refused` configurations of autotuned kernels are left out.
    """
    with MachineCode(gpu) as code, module_state_restored(), compiled_code_forgotten():
        start = code.start if machine_code else None
        captured = capture(target, values, autotune=autotune, gpu=gpu, refused=refused, eager=eager, on_launches=start)
        if autotune and not any(TUNED in note for launch in captured.launches for note in launch.notes):
            raise UsageError(
                f"{target.name} launches no autotuned kernel, so {', '.join(autotune)} cannot be chosen",
                "Leave --config out.",
            )
        facts = param_facts(captured.validity.conditions if captured.validity else ())
        given_values = {**captured.values, **data}
        parts = [_derive_event(event, captured, gpu, facts, given_values) for event in captured.events]
        parts = _with_index_data(parts, captured)
        check_unknowns(target.name, data, unknowns([part.traffic for part in parts], captured.values))
        if machine_code:
            parts = _with_resources(parts, captured, code, gpu)
    return captured, [_launchable(part, gpu) for part in parts]


def _launchable(part: _Part, gpu: GPUTarget) -> _Part:
    """Return the launch, marked not exact with the reason if the GPU refuses it."""
    failure = launch_failure(part.launch.grid, part.launch.shared_bytes, gpu)
    if failure is None:
        return part
    return replace(part, launch=replace(part.launch, exact=False, notes=(*part.launch.notes, failure)), failure=failure)


def _oversized_configurations(captured: Capture, parts: Sequence[_Part]) -> dict[str, str | None]:
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
    parts: Sequence[_Part],
) -> Derived:
    """Add up the launches into one result."""
    given = captured.validity.conditions if captured.validity else ()
    launches = [part.launch for part in parts if part.launch.origin == "triton"]
    floor, floor_notes = compulsory_bytes(target.name, values), ()
    requested = total(launch.requested for launch in launches)
    if floor is None:
        floor, floor_notes = compulsory_of_launches(captured, [part.traffic for part in parts])
        if floor and requested and _is_below(requested, floor):  # of a tensor that data point into, only a part is read
            floor, floor_notes = None, ("compulsory is unknown: data decide which part of a tensor is accessed",)
    formulas = _add_up([part.formulas for part in parts if part.launch.origin == "triton"])
    return Derived(
        source="derive",
        target=target.name,
        params=values,
        requested=_together(formulas, [launch.requested for launch in launches]),
        assumed=_assumed([part for part in parts if part.launch.origin == "torch"]),
        compulsory=floor,
        flops=_sum_known([launch.flops for launch in launches]),
        exact=bool(launches) and all(launch.exact for launch in launches),
        notes=(*captured.notes, *floor_notes),
        conditions=tuple(map(str, given)),
        launches=tuple(part.launch for part in parts),
        environment=software_environment() | {"compiled_for": f"{gpu.backend}:{gpu.arch}"},
        formulas=formulas,
        kernels=tuple(part.traffic for part in parts),
        files=tuple(event.file if isinstance(event, CapturedLaunch) else None for event in captured.events),
        symbols=captured.values,
        holds=tuple(part.holds for part in parts),
        validity=captured.validity,
        data=data,
    )


@dataclass(frozen=True, slots=True)
class _Part:
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


def _derive_event(event: Event, captured: Capture, gpu: GPUTarget, facts: ParamFacts, values: Mapping[str, int]) -> _Part:
    if isinstance(event, CapturedOperator):
        return _operator(event, captured.values)
    kernel = kernel_traffic(event, captured.values, gpu, facts)
    formulas = formulas_of(kernel)
    holds = conditions_of(event, captured)
    wrapped = [limit for limit in kernel.limits if limit.value.symbols <= values.keys() and limit.broken(values)]
    launch = Launch(
        kernel=event.name,
        grid=tuple(evaluate(extent, captured.values) for extent in event.grid),
        requested=formulas.traffic(values),
        flops=_value(formulas.flops, values),
        exact=kernel.exact and not wrapped,
        notes=(*event.notes, *(_wrap_note(limit, values) for limit in wrapped), *kernel.notes),
        conditions=tuple(map(str, holds)),
        configuration=event.configuration,
        tma_loads=tma_instructions(kernel.accesses, "read", gpu),
        tma_stores=tma_instructions(kernel.accesses, "write", gpu),
        ir_hash=launch_hash(event, captured.values, gpu),
    )
    return _Part(launch, formulas, kernel, holds=holds)


def _wrap_note(limit: Limit, values: Mapping[str, int]) -> str:
    """Return a note where an integer wraps around at these values.

    The formulas ignore it.
    """
    return f"{limit.reason} wrap around, which the counts ignore: {limit.value} is {limit.value.evaluate(values)}"


def _is_below(requested: Traffic, floor: Traffic) -> bool:
    """Return whether fewer bytes are requested than the compulsory bytes."""
    pairs = ((requested.read_bytes, floor.read_bytes), (requested.write_bytes, floor.write_bytes))
    return any(asked is not None and least is not None and asked < least for asked, least in pairs)


def _with_index_data(parts: Sequence[_Part], captured: Capture) -> list[_Part]:
    """Return the launches, data-dependent ones with their bytes.

    The bytes are for the index tensors that host code built.
    """
    numbers = iter(range(len(parts)))
    return [
        _at_index_data(part, captured.moved.get(next(numbers))) if isinstance(event, CapturedLaunch) else part
        for part, event in zip(parts, captured.events, strict=True)
    ]


def _at_index_data(part: _Part, moved: Moved | str | None) -> _Part:
    launch = part.launch
    if moved is None or launch.exact or launch.requested is None:
        return part
    if isinstance(moved, str):
        return replace(part, launch=replace(launch, notes=(*launch.notes, f"no bytes for the actual index tensors: {moved}")))
    requested = replace(
        launch.requested,
        read_bytes=moved.read_bytes,
        write_bytes=moved.write_bytes,
        atomic_bytes=moved.atomic_bytes,
        read_sector_bytes=moved.read_sector_bytes if moved.has_sectors else None,
        write_sector_bytes=moved.write_sector_bytes if moved.has_sectors else None,
    )
    note = f"bytes for the contents of {', '.join(sorted(moved.read_names)) or 'the tensors'} that the function built"
    note += ", which are random and differ from run to run" if moved.is_random else ""
    notes, exact = (*launch.notes, note), not moved.is_random
    at_data = replace(launch, requested=requested, flops=moved.flops, exact=exact, notes=notes)
    return replace(part, launch=at_data, moved=moved)


def _with_resources(parts: Sequence[_Part], captured: Capture, code: MachineCode, gpu: GPUTarget) -> list[_Part]:
    """Return the launches with registers and shared memory."""
    launches = enumerate(captured.launches)
    with_them: list[_Part] = []
    for part, event in zip(parts, captured.events, strict=True):
        if isinstance(event, CapturedLaunch):
            used = code.of(next(launches)[0], first_ir(event, captured.values, gpu).text)
            taken = {"shared_bytes": used.shared_bytes, "registers": used.registers, "local_bytes": used.local_bytes}
            noted = machine_code_notes(used, part.traffic, captured.values)
            launch = replace(part.launch, **taken, notes=(*part.launch.notes, *noted))
            with_them.append(replace(part, launch=launch))
        else:
            with_them.append(part)
    return with_them


def _cross_check(part: _Part, event: Event, moved: Moved | str | None, values: Mapping[str, int], gpu: GPUTarget) -> _Part:
    """Return the launch with the outcome of a plain interpretation as a note.

    A launch that differs is not exact.
    """
    from ioaware.derivation.check import check_launch

    if isinstance(event, CapturedOperator) or part.traffic is None or not part.launch.exact:
        return part
    contents = moved.contents if isinstance(moved, Moved) else None
    confirmed, why = check_launch(event, part.moved or part.traffic, values, gpu, contents)
    said = {True: "counted again by plain interpretation", False: "WRONG", None: "not checked"}[confirmed]
    note = f"check: {said}{': ' + why if why else ''}"
    return replace(part, launch=replace(part.launch, exact=confirmed is not False, notes=(note, *part.launch.notes)))


def _with_counters(part: _Part, event: Event, captured: Capture, gpu: GPUTarget) -> _Part:
    """Return the launch with its L1 requests, or a note why they are unknown."""
    from ioaware.derivation.l1_requests import l1_requests_of_launch

    if isinstance(event, CapturedOperator):
        return part
    try:
        launch = replace(part.launch, counters=l1_requests_of_launch(event, captured.values, gpu).counters())
    except ValueError as error:
        launch = replace(part.launch, notes=(*part.launch.notes, f"counters cannot be predicted: {error}"))
    return replace(part, launch=launch)


def conditions_of(launch: CapturedLaunch, captured: Capture) -> tuple[Condition, ...]:
    """Return the conditions of one launch.

    They are branches of the host code, and its own constexprs.
    """
    constants = {condition.holds for condition in launch.conditions}
    given = captured.validity.conditions if captured.validity else ()
    return tuple(c for c in given if c.holds in constants or not c.reason.startswith("constexpr"))


def _operator(event: CapturedOperator, values: Mapping[str, int]) -> _Part:
    """Return a torch operator as a launch; its sectors and FLOPs are unknown."""
    zero = Count(sympy.S.Zero)
    formulas = Formulas(Count(event.read_bytes), Count(event.write_bytes), zero, zero, None, None)
    moved = replace(formulas.traffic(values), atomic_bytes=None)
    return _Part(Launch(event.name, origin="torch", requested=moved, exact=False, notes=(NOTE,)), formulas)


def _assumed(operators: Sequence[_Part]) -> Traffic | None:
    """Return the total bytes of torch operators."""
    if not operators:
        return None
    return _together(_add_up([part.formulas for part in operators]), [part.launch.requested for part in operators])


def _together(formulas: Formulas, parts: Sequence[Traffic | None]) -> Traffic | None:
    """Return the sum of the parts with its formula.

    Why: adding numbers is faster than evaluating the formula.
    """
    moved = total(parts)
    return moved and replace(moved, read_formula=str(formulas.read_bytes), write_formula=str(formulas.write_bytes))


def _sum_known(values: Sequence[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


def formulas_of(kernel: KernelTraffic) -> Formulas:
    """Return the totals of one launch."""
    return Formulas(
        kernel.read_bytes,
        kernel.write_bytes,
        kernel.atomic_bytes,
        kernel.flops,
        kernel.read_sector_bytes,
        kernel.write_sector_bytes,
    )


def _add_up(parts: Sequence[Formulas]) -> Formulas:
    nothing = Count(sympy.S.Zero)
    first, *rest = parts or [Formulas(nothing, nothing, nothing, nothing, nothing, nothing)]
    return sum(rest, first)


def _sum(one: Count | None, other: Count | None) -> Count | None:
    return None if one is None or other is None else one + other


def _value(count: Count | None, values: Mapping[str, int]) -> int | None:
    """Return the count at these values.

    None where it depends on data or does not hold.
    """
    if count is None or _names(count) - values.keys():
        return None
    try:
        return int(cast(int, count.evaluate(values)))
    except OutsideFormulaError:
        return None


def _names(count: Count) -> frozenset[str]:
    return frozenset(map(str, free_symbols(count.expr)))
