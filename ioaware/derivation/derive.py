"""The derive source: a target's launches as captured, compiled to Triton IR and turned into formulas. Needs no GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import sympy
from triton.backends.compiler import GPUTarget

from ioaware.analysis.formulas.evaluate import OutsideFormulaError, evaluate
from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.analysis.formulas.functions import free_symbols
from ioaware.analysis.ir import Count, KernelTraffic
from ioaware.capture.capture import DEFAULT_GPU, Capture, capture
from ioaware.capture.validity import Validity
from ioaware.compilation.launch_traffic import kernel_traffic
from ioaware.compilation.launches import CapturedLaunch, CapturedOperator, Event
from ioaware.compilation.resource_usage import MachineCode
from ioaware.compilation.triton_ir import first_ir
from ioaware.derivation.compulsory import floor_of_launches
from ioaware.derivation.data_dependent import check, missing, unknowns
from ioaware.environment import software_environment
from ioaware.errors import UsageError
from ioaware.fakegpu.aten_traffic import NOTE
from ioaware.fakegpu.autotuning import TUNED
from ioaware.result import Launch, ParamValue, Result, Traffic, total
from ioaware.symints.guards import Condition, Known, known
from ioaware.targets.target import Target, compulsory_bytes


@dataclass(frozen=True, slots=True)
class Formulas:
    """Bytes and FLOPs of one launch or of several, in the parameters that stayed symbolic. None: nobody knows."""

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
        """The bytes at these values of the parameters, with the formulas; None for what depends on data."""
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
    """A `Result` that keeps its formulas: `formulas` of the work's kernels together, `kernels` launch by launch (None for an
    operator of torch's own). They are not part of the JSON, which has them as text."""

    formulas: Formulas | None = None
    kernels: tuple[KernelTraffic | None, ...] = ()
    symbols: Mapping[str, int] | None = None
    """The parameters that stayed symbolic, with their given values."""
    holds: tuple[tuple[Condition, ...], ...] = ()
    """Launch by launch what the formulas are for."""
    validity: Validity | None = None
    data: Mapping[str, int] | None = None
    """The values that were given to what data decide, by the names that it has in the formulas."""

    @property
    def unknowns(self) -> tuple[str, ...]:
        """What data decide, by the names that it has in the formulas."""
        return unknowns(self.kernels, self.symbols or ())

    @property
    def values(self) -> dict[str, int]:
        """What has a value: the symbolic parameters, and of what data decide that which was given one."""
        return {**(self.symbols or {}), **(self.data or {})}

    def evaluate(self, **values: Number) -> dict[str, Number]:
        """Bytes and FLOPs of the work at other values of the symbolic parameters: ints, or int64 arrays of many points.

        Parameters that are not given keep their value. What data decide takes one by the name that it has in the formulas, as
        in `evaluate(rows=512, **{"Lock@layer_norm.py:179": 0})`. Raises `UsageError` for a name that is neither, where data
        decide and nothing was given, and where a condition of the formulas fails (a constexpr would be another one, the host
        code would branch the other way).
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
        counts = {"read_bytes": formulas.read_bytes, "write_bytes": formulas.write_bytes}
        counts |= {"atomic_bytes": formulas.atomic_bytes, "flops": formulas.flops}
        if undecided := frozenset[str]().union(*(count.symbols for count in counts.values())) - point.keys():
            raise missing(self.target, undecided)
        return {name: count.evaluate(point) for name, count in counts.items()}

    def _repr_html_(self) -> str:
        """The table that every result is in a notebook, and the formulas typeset."""
        from ioaware.display.mathml import formulas_html

        rows = [(kernel.kernel, kernel.read_bytes.expr, kernel.write_bytes.expr) for kernel in self.kernels if kernel]
        if len(rows) > 1 and self.formulas:
            rows.append(("total", self.formulas.read_bytes.expr, self.formulas.write_bytes.expr))
        conditions = [str(condition) for condition in self.validity.conditions] if self.validity else []
        return Result._repr_html_(self) + formulas_html(rows, conditions)  # pyright: ignore[reportPrivateUsage]

    def to_dict(self) -> dict[str, Any]:
        """As every result's."""
        data = Result.to_dict(self)
        for name in ("formulas", "kernels", "symbols", "holds", "validity", "data"):
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
) -> Derived:
    """Closed formulas of what the work of `target` requests, and their values at `params`.

    Kernels are compiled for `gpu`. `autotune` picks the configuration of autotuned kernels by value, as in `{"BLOCK": 64}`;
    without it they have their first. Without `machine_code` nobody asks which registers and how much shared memory a launch
    uses, the slow part. With `counters` each launch also has what its warps ask of the L1, as a GPU's counters would say it, or
    a note why that cannot be told. `data` gives values to what data decide, by the names that it has in the formulas.
    Raises `UsageError` for a target that cannot run, launches nothing, or has a kernel that does not compile or holds an
    operation that cannot be counted.
    """
    values = target.resolve(params)
    with MachineCode(gpu) as code:
        found = capture(target, values, autotune=autotune, gpu=gpu, begun=code.start if machine_code else None)
        if autotune and not any(TUNED in note for launch in found.launches for note in launch.notes):
            raise UsageError(
                f"{target.name} launches no kernel that is autotuned, of which {', '.join(autotune)} could be chosen",
                "Leave --config out.",
            )
        validity = found.validity
        given = validity.conditions if validity else ()
        facts = known(given)
        known_values = {**found.values, **(data or {})}
        parts = [_derive_event(event, found, gpu, facts, known_values) for event in found.events]
        check(target.name, data or (), unknowns([part.traffic for part in parts], found.values))
        if machine_code:
            parts = _with_resources(parts, found, code, gpu)
    if counters:
        parts = [_with_counters(part, event, found, gpu) for part, event in zip(parts, found.events, strict=True)]
    launches = [part.launch for part in parts if part.launch.origin == "triton"]
    floor, floor_notes = compulsory_bytes(target.name, values), ()
    if floor is None:
        floor, floor_notes = floor_of_launches(found, [part.traffic for part in parts])
    formulas = _add_up(part.formulas for part in parts if part.launch.origin == "triton")
    return Derived(
        source="derive",
        target=target.name,
        params=values,
        requested=_together(formulas, [launch.requested for launch in launches]),
        assumed=_assumed([part for part in parts if part.launch.origin == "torch"]),
        compulsory=floor,
        flops=_sum_known([launch.flops for launch in launches]),
        exact=all(launch.exact for launch in launches),
        notes=(*found.notes, *floor_notes),
        conditions=tuple(map(str, given)),
        launches=tuple(part.launch for part in parts),
        environment=software_environment() | {"compiled_for": f"{gpu.backend}:{gpu.arch}"},
        formulas=formulas,
        kernels=tuple(part.traffic for part in parts),
        symbols=found.values,
        holds=tuple(part.holds for part in parts),
        validity=validity,
        data=data,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A launch or an operator with its formulas; `traffic` is the engine's own record of a launch."""

    launch: Launch
    formulas: Formulas
    traffic: KernelTraffic | None = None
    holds: tuple[Condition, ...] = ()


def _derive_event(event: Event, found: Capture, gpu: GPUTarget, facts: Known, values: Mapping[str, int]) -> _Part:
    if isinstance(event, CapturedOperator):
        return _operator(event, found.values)
    kernel = kernel_traffic(event, found.values, gpu, facts)
    formulas = formulas_of(kernel)
    holds = conditions_of(event, found)
    launch = Launch(
        kernel=event.name,
        grid=tuple(evaluate(extent, found.values) for extent in event.grid),
        requested=formulas.traffic(values),
        flops=_value(formulas.flops, values),
        exact=kernel.exact,
        notes=(*event.notes, *kernel.notes),
        conditions=tuple(map(str, holds)),
    )
    return _Part(launch, formulas, kernel, holds)


def _with_resources(parts: Sequence[_Part], found: Capture, code: MachineCode, gpu: GPUTarget) -> list[_Part]:
    """The launches with what they use of the chip."""
    launches = enumerate(found.launches)
    with_them: list[_Part] = []
    for part, event in zip(parts, found.events, strict=True):
        if isinstance(event, CapturedLaunch):
            used = code.of(next(launches)[0], first_ir(event, found.values, gpu).text)
            launch = replace(part.launch, shared_bytes=used.shared_bytes, registers=used.registers)
            with_them.append(replace(part, launch=launch))
        else:
            with_them.append(part)
    return with_them


def _with_counters(part: _Part, event: Event, found: Capture, gpu: GPUTarget) -> _Part:
    """The launch with what its warps ask of the L1; a note where that cannot be told."""
    from ioaware.derivation.l1_requests import launch_asks

    if isinstance(event, CapturedOperator):
        return part
    try:
        launch = replace(part.launch, counters=launch_asks(event, found.values, gpu).counters())
    except ValueError as error:
        launch = replace(part.launch, notes=(*part.launch.notes, f"no counters are foretold: {error}"))
    return replace(part, launch=launch)


def conditions_of(launch: CapturedLaunch, found: Capture) -> tuple[Condition, ...]:
    """What the formulas of one launch are for: branches of the host code, and the launch's own constexprs."""
    constants = {condition.holds for condition in launch.conditions}
    given = found.validity.conditions if found.validity else ()
    return tuple(c for c in given if c.holds in constants or not c.reason.startswith("constexpr"))


def _operator(event: CapturedOperator, values: Mapping[str, int]) -> _Part:
    """An operator of torch's own: it has no sectors and no FLOPs that anybody knows."""
    zero = Count(sympy.S.Zero)
    formulas = Formulas(Count(event.read_bytes), Count(event.write_bytes), zero, zero, None, None)
    moved = replace(formulas.traffic(values), atomic_bytes=None)
    return _Part(Launch(event.name, origin="torch", requested=moved, exact=False, notes=(NOTE,)), formulas)


def _assumed(operators: Sequence[_Part]) -> Traffic | None:
    """What torch's own operators move together."""
    if not operators:
        return None
    return _together(_add_up(part.formulas for part in operators), [part.launch.requested for part in operators])


def _together(formulas: Formulas, parts: Sequence[Traffic | None]) -> Traffic | None:
    """The sum of what is known of the parts, with its formula: to add up numbers is faster than to evaluate their sum."""
    moved = total(parts)
    return moved and replace(moved, read_formula=str(formulas.read_bytes), write_formula=str(formulas.write_bytes))


def _sum_known(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def formulas_of(kernel: KernelTraffic) -> Formulas:
    """The totals of one launch."""
    return Formulas(
        kernel.read_bytes,
        kernel.write_bytes,
        kernel.atomic_bytes,
        kernel.flops,
        kernel.read_sector_bytes,
        kernel.write_sector_bytes,
    )


def _add_up(parts: Iterable[Formulas]) -> Formulas:
    first, *rest = parts
    return sum(rest, first)


def _sum(one: Count | None, other: Count | None) -> Count | None:
    return None if one is None or other is None else one + other


def _value(count: Count | None, values: Mapping[str, int]) -> int | None:
    """The count at these values; None where it names something that only memory could tell, or does not hold for them."""
    if count is None or _names(count) - values.keys():
        return None
    try:
        return int(cast(int, count.evaluate(values)))
    except OutsideFormulaError:
        return None


def _names(count: Count) -> frozenset[str]:
    return frozenset(map(str, free_symbols(count.expr)))
