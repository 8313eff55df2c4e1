"""The values everything exchanges: `Traffic` at one place of the memory hierarchy, and the `Result` one source gives.

Three places, always named apart: `requested` (between the SMs and the L2, what Theorem 2 of the FlashAttention paper
counts), `hbm` (between the L2 and HBM), and `compulsory` (every distinct byte of the inputs and of the output once).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

SCHEMA = 1

Source = Literal["predict", "derive", "trace", "simulate", "measure"]
Status = Literal["ok", "throttled", "unstable", "impossible", "failed"]
"""throttled: the clocks moved, so the bytes hold and the time compares with nothing. unstable: others were on the GPU,
or it is not whole. impossible: the numbers contradict physics. failed: there are none to show."""

BYTES_HOLD: frozenset[Status] = frozenset({"ok", "throttled"})
"""Counting bytes needs no quiet clock."""

ParamValue = int | float | bool | str | None
Params = Mapping[str, ParamValue]


def _refuse_impossible(value: Any, name: str) -> None:
    """A byte count is a non-negative int or unknown; a bool or a float that slipped in is a bug or a forged file."""
    if value is not None and (type(value) is not int or value < 0):
        raise ValueError(f"{name} must be a non-negative integer, not {value!r}")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes moved at one place. `None` means that the source does not know, never zero.

    `read_bytes` and `write_bytes` count the elements accessed under their masks; the sector fields count the 32-byte
    sectors those accesses touch, which is what hardware counters see; `atomic_bytes` counts the operands of
    read-modify-writes, apart from both.
    """

    read_bytes: int | None = None
    write_bytes: int | None = None
    atomic_bytes: int | None = None
    read_sector_bytes: int | None = None
    write_sector_bytes: int | None = None
    read_formula: str | None = None
    write_formula: str | None = None

    def __post_init__(self) -> None:
        for name in ("read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes"):
            _refuse_impossible(getattr(self, name), name)

    @property
    def total_bytes(self) -> int | None:
        """Reads, writes and atomics together, or None where reads or writes are unknown."""
        if self.read_bytes is None or self.write_bytes is None:
            return None
        return self.read_bytes + self.write_bytes + (self.atomic_bytes or 0)

    def __add__(self, other: Traffic) -> Traffic:
        """The sum of two launches' traffic; what either does not know, the sum does not know. Formulas are dropped."""
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
    """The sum over launches, or None when any of them is unknown."""
    result = ZERO
    for part in parts:
        if part is None:
            return None
        result = result + part
    return result


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch of the work, in launch order. `origin` tells Triton kernels from torch's own operators.

    `local_bytes` is the local memory of a thread: registers spilled there travel through the L1 and the L2, so counters
    see them and no formula does. `conditions` are what the formulas are for, as relations between parameters. `counters` are
    what else a GPU counts, as counted or as foretold, by their own names.
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


@dataclass(frozen=True, slots=True)
class Check:
    """The output against the float64 reference: relative Frobenius error, and the error allowed for this dtype."""

    relative_error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Written so that a NaN error fails."""
        return self.relative_error <= self.tolerance


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of one call of the work over `count` repetitions, by CUDA events, in nanoseconds."""

    median_ns: float
    p25_ns: float
    p75_ns: float
    min_ns: float
    count: int


@dataclass(frozen=True, slots=True)
class Result:
    """What one source says about one target at one set of parameters. See the JSON contract in the README."""

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
    telemetry: Mapping[str, Any] | None = None
    environment: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON form: `schema` first, and only the keys this source knows."""
        return {"schema": SCHEMA, **_known(self)}

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        from ioaware.display.notebook import result_html

        return result_html(self)


def _known(value: Any) -> Any:
    """Dataclasses to dictionaries without their unknown (None) and empty fields; tuples to lists."""
    if is_dataclass(value):
        pairs = ((f.name, _known(getattr(value, f.name))) for f in fields(value))
        return {name: item for name, item in pairs if item is not None and item != []}
    if isinstance(value, Mapping):
        return {str(key): _known(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (tuple, list)):
        return [_known(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
