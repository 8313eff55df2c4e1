"""Define `Traffic` at one place of the memory hierarchy, and `Result`.

A `Result` holds the numbers of one source.

Places: `requested` is between the SMs and the L2 (Theorem 2 of the FlashAttention paper counts it). `hbm` is between the L2 and
HBM. `compulsory` is every distinct byte of the inputs and of the output once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from typing import Any, Literal, cast

SCHEMA = 1

Source = Literal["predict", "derive", "trace", "simulate", "measure"]
Status = Literal["ok", "throttled", "unstable", "impossible", "failed"]
"""Say what is wrong with a measured point.

throttled: the clocks moved, so the bytes hold and the time does not. unstable: other processes used the GPU, or it is a
partition. impossible: the numbers contradict physics. failed: there are no numbers.
"""

BYTES_HOLD: frozenset[Status] = frozenset({"ok", "throttled"})
"""Statuses whose byte counts are valid: counting bytes needs no steady clock."""

LONGEST_NS = 1e30
"""Longest valid time."""
ROUNDING = 1e-9
"""Relative rounding error of interpolated quartiles."""

BOUND_TIMES = ("time_ns", "arithmetic_ns", "l2_ns", "hbm_ns")
"""Times of a `time_bound`; `binds` is the level of the first."""

ParamValue = int | float | bool | str | None
Params = Mapping[str, ParamValue]


def _check_counts(owner: Any, *names: str) -> None:
    """Raise `ValueError` unless each field is None or a non-negative int.

    A bool or a float is refused.
    """
    for name in names:
        value = getattr(owner, name)
        if value is not None and (type(value) is not int or value < 0):
            raise ValueError(f"{name} must be a non-negative integer, not {value!r}")


def _check_times(owner: Any, *names: str) -> None:
    """Raise `ValueError` unless each field is None or a finite, non-negative number."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and not 0 <= value < LONGEST_NS:
            raise ValueError(f"{name} must be a number of nanoseconds from 0 to 1e30, not {value!r}")


def _check_bound(bound: Mapping[str, float | str] | None) -> None:
    """Raise `ValueError` for another form than `TimeBound.to_dict` writes."""
    if not bound:
        return
    times = [value for name, value in bound.items() if name != "binds"]
    if not {"time_ns", "binds"} <= bound.keys() <= {*BOUND_TIMES, "binds"} or not isinstance(bound["binds"], str):
        raise ValueError(f"time_bound must have time_ns, binds and times of levels, not {', '.join(bound)[:100]}")
    if any(isinstance(time, (str, bool)) or not 0 <= time < LONGEST_NS for time in times):
        raise ValueError("time_bound must have numbers of nanoseconds from 0 to 1e30")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes moved at one place. `None` means unknown, never zero.

    `read_bytes` and `write_bytes` count the elements accessed under their masks. The sector fields count the 32-byte
    sectors that those accesses touch, as hardware counters do. `atomic_bytes` counts the operands of read-modify-writes,
    apart from both.
    """

    read_bytes: int | None = None
    write_bytes: int | None = None
    atomic_bytes: int | None = None
    read_sector_bytes: int | None = None
    write_sector_bytes: int | None = None
    read_formula: str | None = None
    write_formula: str | None = None

    def __post_init__(self) -> None:
        _check_counts(self, "read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes")

    @property
    def total_bytes(self) -> int | None:
        """Sum of reads, writes and atomics; None where reads or writes are unknown."""
        if self.read_bytes is None or self.write_bytes is None:
            return None
        return self.read_bytes + self.write_bytes + (self.atomic_bytes or 0)

    @property
    def moved_bytes(self) -> int | None:
        """Sum of reads, writes and atomics, in sectors where they are known."""
        reads = self.read_bytes if self.read_sector_bytes is None else self.read_sector_bytes
        writes = self.write_bytes if self.write_sector_bytes is None else self.write_sector_bytes
        return None if reads is None or writes is None else reads + writes + (self.atomic_bytes or 0)

    def __add__(self, other: Traffic) -> Traffic:
        """Return the sum of two launches' traffic.

        Unknown plus anything is unknown. Formulas are dropped.
        """
        return Traffic(
            _sum(self.read_bytes, other.read_bytes),
            _sum(self.write_bytes, other.write_bytes),
            _sum(self.atomic_bytes, other.atomic_bytes),
            _sum(self.read_sector_bytes, other.read_sector_bytes),
            _sum(self.write_sector_bytes, other.write_sector_bytes),
        )


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


ZERO = Traffic(0, 0, 0, 0, 0)


def total(parts: Iterable[Traffic | None]) -> Traffic | None:
    """Return the sum over launches, or None where any of them is unknown."""
    result = ZERO
    for part in parts:
        if part is None:
            return None
        result = result + part
    return result


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch, in launch order.

    `origin` separates Triton kernels from torch's own operators.

    `local_bytes` is the local memory of a thread. Spilled registers move through L1 and L2: counters see them, formulas do
    not. `conditions` are relations between parameters under which the formulas hold. `counters` are other GPU counters,
    measured or predicted, by Nsight Compute's names. `tma_loads` and `tma_stores` count the kernel's instructions that move
    tiles by TMA. `ir_hash` identifies its IR, arguments and grid.
    """

    kernel: str
    grid: tuple[int, ...] = ()
    origin: Literal["triton", "torch"] = "triton"
    requested: Traffic | None = None
    hbm: Traffic | None = None
    flops: int | None = None
    time_ns: float | None = None
    shared_bytes: int | None = None
    registers: int | None = None
    local_bytes: int | None = None
    exact: bool = True
    notes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    counters: Mapping[str, int] | None = None
    tma_loads: int | None = None
    tma_stores: int | None = None
    ir_hash: str | None = None
    parameters: Mapping[str, str] | None = None
    """The arguments that are parameters of a module, with their names there."""
    configuration: Mapping[str, ParamValue] | None = None
    """What the autotuner chose.

    It is the configuration's arguments, num_warps and num_stages. None for a kernel without a choice.
    """
    time_bound: Mapping[str, float | str] | None = None
    """Least time by level in nanoseconds, and the level that binds.

    `machine.time_bound` writes it.
    """
    matmul_types: tuple[str, ...] = ()
    """Element types of the matrix products' operands.

    They have MLIR's names: f16, bf16, f8E4M3FN.
    """
    formulas_exact: bool | None = None
    """False where the bytes at the given sizes are exact, and formulas bound them."""

    def __post_init__(self) -> None:
        _check_counts(self, "flops", "shared_bytes", "registers", "local_bytes", "tma_loads", "tma_stores")
        _check_times(self, "time_ns")
        _check_bound(self.time_bound)
        if any(count < 0 for count in (*self.grid, *(self.counters or {}).values())):
            raise ValueError("grid and counters must be non-negative")


@dataclass(frozen=True, slots=True)
class Check:
    """Relative Frobenius error of the output against float64.

    The error allowed for this dtype stands beside it.
    """

    relative_error: float
    tolerance: float

    def __post_init__(self) -> None:
        if self.relative_error < 0 or self.tolerance < 0:
            raise ValueError("relative_error and tolerance must be non-negative")

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance; False for a NaN error."""
        return self.relative_error <= self.tolerance


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of one call over `count` repetitions, by CUDA events, in nanoseconds.

    `rounds_ns` are at most 32 of the repetitions in order, evenly spaced: what a comparison with another run needs.
    """

    median_ns: float
    p25_ns: float
    p75_ns: float
    min_ns: float
    count: int
    rounds_ns: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if any(not 0 <= value < LONGEST_NS for value in self.rounds_ns) or len(self.rounds_ns) > self.count:
            raise ValueError("rounds_ns must be numbers of nanoseconds from 0 to 1e30, at most `count`")
        _check_times(self, "median_ns", "p25_ns", "p75_ns", "min_ns")
        ascending = (self.min_ns, self.p25_ns, self.median_ns, self.p75_ns)
        if self.count < 1 or any(low > high * (1 + ROUNDING) for low, high in pairwise(ascending)):
            raise ValueError(f"quartiles must be ascending, of at least one time, not {self}")


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one source for one target at one set of parameters."""

    source: Source
    target: str
    params: Params = field(default_factory=dict[str, ParamValue])
    requested: Traffic | None = None
    assumed: Traffic | None = None
    hbm: Traffic | None = None
    compulsory: Traffic | None = None
    lower_bound_bytes: int | None = None
    flops: int | None = None
    extra_memory_bytes: int | None = None
    time_ns: float | None = None
    exact: bool = True
    status: Status = "ok"
    notes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    launches: tuple[Launch, ...] = ()
    check: Check | None = None
    timing: Timing | None = None
    time_bound: Mapping[str, float | str] | None = None
    """As of a launch, for all counted kernels of the call."""
    telemetry: Mapping[str, Any] | None = None
    environment: Mapping[str, Any] | None = None
    formulas_exact: bool | None = None
    """As of a launch."""

    def __post_init__(self) -> None:
        _check_counts(self, "lower_bound_bytes", "flops", "extra_memory_bytes")
        _check_times(self, "time_ns")
        _check_bound(self.time_bound)

    @property
    def tuning(self) -> dict[str, ParamValue]:
        """The configurations of autotuned kernels: `{"kernel:BLOCK": 64}`.

        `derive` takes them in this form.

        A kernel that ran with several configurations is left out.
        """
        chosen: dict[str, list[Mapping[str, ParamValue]]] = {}
        for launch in self.launches:
            if launch.configuration is not None:
                chosen.setdefault(launch.kernel, []).append(launch.configuration)
        alone = {kernel: found[0] for kernel, found in chosen.items() if all(one == found[0] for one in found)}
        return {f"{kernel}:{name}": value for kernel, values in alone.items() for name, value in values.items()}

    def sm_clock_mhz(self, when: Literal["before", "after"]) -> float | None:
        """Return the SM clock before or after the timed repetitions.

        None where the telemetry has no positive number there.
        """
        snapshot: Any = (self.telemetry or {}).get(when)
        clock: Any = cast("Mapping[str, Any]", snapshot).get("sm_clock_mhz") if isinstance(snapshot, Mapping) else None
        return clock if type(clock) in (int, float) and 0 < clock < math.inf else None

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form: `schema` first, then only the known keys."""
        return {"schema": SCHEMA, **_known(self)}

    def __str__(self) -> str:
        """Return one readable line; `repr` has every field."""
        from ioaware.display.line import result_line

        return result_line(self)

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks."""
        from ioaware.display.notebook import result_html

        return result_html(self)


def _known(value: Any) -> Any:
    """Convert dataclasses to dictionaries, and tuples to lists.

    None and empty fields are left out.
    """
    if is_dataclass(value):
        pairs = ((f.name, _known(getattr(value, f.name))) for f in fields(value))
        return {name: item for name, item in pairs if item is not None and item != []}
    if isinstance(value, Mapping):
        return {str(key): _known(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (tuple, list)):
        return [_known(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
