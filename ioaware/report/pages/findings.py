"""Collect the contents of a target's page.

They are derivation, simulation, curves, recorded measurements, and the machine's rates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import process_time
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.capture.capture import capture
from ioaware.cases import CASES
from ioaware.derivation.annotated_source import AnnotatedSource
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.display.time_limit import within
from ioaware.errors import IoawareError, NoKernelError, UsageError
from ioaware.machine import Machine
from ioaware.machine.time_bound import TimeBound, peak_dtype, time_bound
from ioaware.measurement.time_bounds import with_flops
from ioaware.prediction import predict
from ioaware.report.pages.known_hbm import bounds_alone, hbm_range, known_hbm, launch_range, least_hbm
from ioaware.report.pages.over import Curve, Span, curve, sector_bytes_at, simulated_along, spans_of, value_of
from ioaware.report.pages.over_pieces import with_pieces
from ioaware.report.pages.shared_lines import NOT_COUNTED, SharedLines, shared_lines
from ioaware.result import ParamValue, Result, Traffic
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import Target

DERIVED_SECONDS = 20.0
"""Time for derivations at other values of the parameters."""
SIMULATED_SECONDS = 40.0
"""CPU time for the simulated HBM bytes along all given ranges."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured point beside the formulas at its parameters.

    None where they do not hold there.
    """

    measured: Result
    derived_bytes: int | None

    @property
    def measured_bytes(self) -> int | None:
        """Bytes that the counters saw between the L2 and the SMs."""
        return self.measured.requested.total_bytes if self.measured.requested else None

    @property
    def deviation(self) -> float | None:
        """Measured over derived, less 1."""
        if self.measured_bytes is None or not self.derived_bytes:
            return None
        return self.measured_bytes / self.derived_bytes - 1


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that the page of a target shows.

    `words` are the target and its parameters as typed.
    """

    words: str
    source: AnnotatedSource
    machine: Machine
    simulated: Simulated | None
    why_not_simulated: str
    lower_bound_bytes: int | None
    curves: tuple[Curve, ...]
    measured: tuple[Compared, ...]
    shared: SharedLines = NOT_COUNTED
    ranges_given: bool = False
    """Whether the curves' ranges were asked for: HBM is simulated along these alone."""

    @property
    def derived(self) -> Derived:
        """The derived result."""
        return self.source.result

    @property
    def ranges(self) -> str:
        """The given ranges as words of the command line."""
        return "".join(f" --over {one.span}" for one in self.curves) if self.ranges_given else ""

    @property
    def torch_alone(self) -> bool:
        """Whether no Triton kernel runs, as in an eager model."""
        return all(one.origin == "torch" for one in self.derived.launches)

    @property
    def peak_dtype(self) -> str | None:
        """The dtype whose peak bounds the FLOPs; None for a machine without peaks."""
        return peak_dtype(self.machine, self.derived.params.get("dtype"), self._matmul_types)

    @property
    def _matmul_types(self) -> set[str]:
        return {one for launch in self.derived.launches for one in launch.matmul_types}

    def bound(
        self, flops: int | None, requested_bytes: int | None, hbm: Traffic | None, types: Collection[str] | None = None
    ) -> TimeBound:
        """Return the least time of so much work on the page's machine.

        No FLOPs bound nothing. `types` are the operands' element types, by default those of all launches.
        """
        return time_bound(
            self.machine,
            flops=flops or None,
            dtype=self.derived.params.get("dtype"),
            matmul_types=self._matmul_types if types is None else types,
            requested_bytes=requested_bytes,
            hbm_read_bytes=hbm and hbm.read_bytes,
            hbm_write_bytes=hbm and hbm.write_bytes,
        )

    @property
    def requested_bytes(self) -> int | None:
        """Bytes that the kernels request; None where data decide them."""
        return self.derived.requested.total_bytes if self.derived.requested else None

    @property
    def at_most(self) -> bool:
        """Whether the requested bytes are an upper bound, as masks may be data."""
        formulas = self.derived.formulas
        counts = (formulas.read_bytes, formulas.write_bytes, formulas.atomic_bytes) if formulas else ()
        return not self.derived.exact and any(count.at_most for count in counts)

    @property
    def hbm_bytes(self) -> int | None:
        """Simulated bytes between HBM and the L2; None of bounds alone."""
        return self.hbm.total_bytes if self.hbm else None

    @property
    def hbm(self) -> Traffic | None:
        """Simulated traffic between HBM and the L2; None of bounds alone."""
        return known_hbm(self.simulated)

    @property
    def least_hbm(self) -> Traffic | None:
        """HBM traffic of the launches that bounds their time.

        It is the simulated one; of bounds alone their low end, where that is more than the compulsory traffic.
        """
        compulsory = self.derived.compulsory
        if self.hbm is not None or self.simulated is None:
            return self.hbm or compulsory
        low = least_hbm(self.simulated.read_range, self.simulated.write_range)
        return max(low, compulsory or low, key=lambda one: one.total_bytes or 0)

    @property
    def spills(self) -> bool:
        """Whether simulated bytes include spilled registers."""
        return self.simulated is not None and any(how and how.spills for how in self.simulated.simulations)

    @property
    def launch_hbm(self) -> list[Traffic | None]:
        """Simulated HBM traffic of each launch.

        None of torch's operators, of a target that is not simulated, and of bounds alone.
        """
        if self.simulated is None:
            return [None] * len(self.derived.launches)
        found: list[Traffic | None] = []
        for launch, how, ends in zip(self.simulated.launches, self.simulated.simulations, self.launch_hbm_ranges, strict=True):
            vague = ends is None or bounds_alone(*ends, data_dependent=bool(how and how.data_dependent))
            found.append(None if vague else launch.hbm)
        return found

    @property
    def launch_hbm_ranges(self) -> list[tuple[int, int | None] | None]:
        """Ends of each launch's simulated range; None of what is not simulated."""
        if self.simulated is None:
            return [None] * len(self.derived.launches)
        pairs = zip(self.simulated.launches, self.simulated.simulations, strict=True)
        return [launch_range(launch, how) if how else None for launch, how in pairs]

    @property
    def _launch_least_hbm(self) -> list[Traffic | None]:
        """HBM traffic that bounds each launch's time, of bounds alone their low end."""
        hows = self.simulated.simulations if self.simulated else [None] * len(self.launch_hbm)
        lows = [how and least_hbm(how.read_range, how.write_range) for how in hows]
        return [hbm or low for hbm, low in zip(self.launch_hbm, lows, strict=True)]

    @property
    def launch_bounds(self) -> list[TimeBound]:
        """The least time of each launch: FLOPs, requested and simulated bytes.

        Where data decide the simulated bytes, their low end counts. The bytes of torch's operators are assumed ones.
        """
        launches = self.simulated.launches if self.simulated else self.derived.launches
        return [
            self.bound(
                one.flops,
                one.requested and one.requested.moved_bytes,
                one.requested if one.origin == "torch" else hbm,
                one.matmul_types or None,
            )
            for one, hbm in zip(launches, self._launch_least_hbm, strict=True)
        ]

    @property
    def launch_by_launch_ns(self) -> float | None:
        """The least times of all launches together; None where one is unknown."""
        times = [one.time_ns for one in self.launch_bounds]
        return sum(time for time in times if time is not None) if times and None not in times else None

    @property
    def hbm_range(self) -> tuple[int, int | None]:
        """Ends of the simulated range; the second is None where there is none."""
        return hbm_range(self.simulated) if self.simulated else (0, None)

    @property
    def sector_bytes(self) -> int | None:
        """Requested bytes, reads and writes in whole sectors; None where data decide them."""
        sides = self.derived.requested
        return sides.moved_bytes if sides and None not in (sides.read_sector_bytes, sides.write_sector_bytes) else None

    @property
    def compulsory_bytes(self) -> int | None:
        """Every distinct byte of inputs and outputs once."""
        return self.derived.compulsory.total_bytes if self.derived.compulsory else None

    @property
    def flops(self) -> int | None:
        """FLOPs of matrix products; None where torch does some, uncounted."""
        uncounted = any(one.origin == "torch" and one.flops is None for one in self.derived.launches)
        return None if uncounted and not self.derived.flops else self.derived.flops

    @property
    def work_bound(self) -> TimeBound:
        """The least time of any kernel that does this work.

        It comes from compulsory bytes, which pass the L2 and HBM, and FLOPs.
        """
        return self.bound(self.flops, self.compulsory_bytes, self.derived.compulsory)

    @property
    def simulated_bound(self) -> TimeBound:
        """The least time of these launches: FLOPs, requested and simulated bytes.

        Requested bytes are those behind the L1. Compulsory bytes pass HBM at least.
        """
        requested = self.simulated.requested if self.simulated else self.derived.requested
        if self.at_most:
            requested = self.derived.compulsory
        return self.bound(self.flops, requested and requested.moved_bytes, self.least_hbm)


def find(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    words: str,
    machine: Machine,
    gpu: GPUTarget,
    autotune: Mapping[str, ParamValue] | None = None,
    data: Mapping[str, int] | None = None,
    over: Sequence[Span] = (),
    recorded: Iterable[Result] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Findings:
    """Derive and simulate a target.

    It is compared with the recorded measurements of the same target.

    Raises `UsageError` for what `derive` refuses, and for a range of no symbolic parameter. A target that cannot be
    simulated is reported with the reason.
    """
    progress(f"deriving {target.name}")
    derived, eager = _derived(target, params, gpu=gpu, autotune=autotune, data=data)
    spans = spans_of(derived, over)
    progress(f"simulating it on {machine.name}")
    simulated, why = None, ""
    try:
        simulated = simulate(target, params, machine=machine, gpu=gpu, autotune=autotune, data=data)
    except UsageError as error:
        why = error.what
    progress("evaluating the formulas")

    def bound_at(changed: Mapping[str, int]) -> int | None:
        if target.name not in CASES:
            return None
        return predict(target.name, machine=machine, **{**params, **changed}).lower_bound_bytes

    of_target = [result for result in recorded if _is_of(derived, result)]
    as_tuned = {(): derived, _key(derived.tuning): derived}
    for result in of_target:  # a measurement is compared with a derivation of the configuration that ran
        if _key(result.tuning) not in as_tuned:
            as_tuned[_key(result.tuning)] = derive(target, params, gpu=gpu, autotune=result.tuning, data=data)
    measured = [_compared(as_tuned[_key(result.tuning)], result) for result in of_target]
    measured = _with_pieces(measured, derived, target, params, progress, gpu=gpu, autotune=autotune, data=data)
    values = {
        span.name: [int(one.measured.params[span.name] or 0) for one in measured if span.name in one.measured.params]
        for span in spans
    }
    curves: list[Curve] = []
    for span in spans:
        name, own = span.name, value_of(derived, span.name)

        def bound(at: int, name: str = name) -> int | None:
            return bound_at({name: at})

        def derive_at(at: int, name: str = name) -> Derived:
            progress(f"deriving {target.name} at {name}={at}")
            return derive(target, {**params, name: at}, gpu=gpu, autotune=autotune, data=data)

        one = curve(derived, span, values[name], bound)
        curves.append(with_pieces(one, own, derive_at, bound, DERIVED_SECONDS / len(spans)))
    if over and simulated is not None:  # along ranges that were asked for

        def simulate_at(name: str, value: int) -> Simulated:
            at = {**params, name: value}
            return simulate(target, at, machine=machine, gpu=gpu, autotune=autotune, data=data, ranges=False)

        seconds = SIMULATED_SECONDS / len(curves)
        curves = [simulated_along(one, partial(simulate_at, one.span.name), seconds, progress) for one in curves]
    source = AnnotatedSource.of(derived)
    captured = capture(target, target.resolve(params), autotune=autotune, gpu=gpu, eager=eager)
    shared = shared_lines(captured, gpu)
    return Findings(words, source, machine, simulated, why, bound_at({}), tuple(curves), tuple(measured), shared, bool(over))


def _derived(target: Target, params: Mapping[str, ParamValue], **how: Any) -> tuple[Derived, bool]:
    """Return the derivation, and whether torch's operators alone run."""
    try:
        return derive(target, params, **how), False
    except NoKernelError:
        return derive(target, params, eager=True, **how), True


def _with_pieces(
    measured: Sequence[Compared],
    derived: Derived,
    target: Target,
    params: Mapping[str, ParamValue],
    progress: Callable[[str], None],
    *,
    autotune: Mapping[str, ParamValue] | None,
    **how: Any,
) -> list[Compared]:
    """Return measured points, each with the bytes derived for it.

    Where the formulas do not hold, the target is derived anew. It ends when `DERIVED_SECONDS` of CPU time are used.
    """
    end = process_time() + DERIVED_SECONDS
    found: list[Compared] = []
    for one in measured:
        left = end - process_time()
        if one.derived_bytes is None and left > 0:
            own = one.measured.params
            at = {**params, **{name: own[name] for name in derived.symbols or {} if name in own}}
            progress(f"deriving {target.name} at a measured point")
            tuning = one.measured.tuning or autotune
            piece = within(left, lambda at=at, tuning=tuning: _derived_at(target, at, autotune=tuning, **how))
            found.append(_compared(piece, one.measured) if piece else one)
        else:
            found.append(one)
    return found


def _derived_at(target: Target, params: Mapping[str, ParamValue], **how: Any) -> Derived | None:
    """Return the derivation at other parameters; None where it is refused."""
    try:
        return derive(target, params, **how)
    except IoawareError:
        return None


def _key(tuning: Mapping[str, ParamValue]) -> tuple[tuple[str, ParamValue], ...]:
    return tuple(sorted(tuning.items()))


def _is_of(derived: Derived, result: Result) -> bool:
    """Return whether a result measured this target.

    All parameters that are no symbols must have the same values.
    """
    if result.source != "measure" or result.target != derived.target or result.status in ("failed", "impossible"):
        return False
    free = derived.symbols or {}
    fixed = {name: value for name, value in derived.params.items() if name not in free and value is not None}
    own = {name: value for name, value in result.params.items() if value is not None}
    return all(own.get(name, value) == value for name, value in fixed.items()) and (own.keys() <= fixed.keys() | free.keys())


def _compared(derived: Derived, result: Result) -> Compared:
    """Return a measurement with the bytes of the formulas there.

    They are sectors, which counters count, where they are known.
    """
    point: dict[str, int] = {**derived.values}
    for name in derived.symbols or {}:
        value = result.params.get(name)
        if type(value) is int:
            point[name] = value
    try:
        counts = derived.evaluate(**{name: point[name] for name in derived.symbols or {}})
    except UsageError:
        return Compared(result, None)
    requested = sum(int(counts[name]) for name in ("read_bytes", "write_bytes"))  # pyright: ignore[reportArgumentType]
    products = replace(
        derived, flops=int(counts["flops"]), launches=tuple(replace(one, flops=None) for one in derived.launches)
    )  # pyright: ignore[reportArgumentType]
    return Compared(with_flops(result, products), sector_bytes_at(derived, point) or requested)
