"""Bound the time of a kernel from below.

FLOPs, bytes through the L2, and bytes at HBM are each taken at their ceiling.

Source: the roofline of Williams, Waterman, Patterson 2009, with one roof for each level.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ioaware.machine.model import Machine
from ioaware.params import DTYPE_ALIASES
from ioaware.result import ParamValue

Bound = Literal["arithmetic", "L2", "HBM"]


@dataclass(frozen=True, slots=True)
class TimeBound:
    """Least time in nanoseconds by level.

    None where the work or the level's ceiling is not known.
    """

    arithmetic_ns: float | None
    l2_ns: float | None
    hbm_ns: float | None

    @property
    def levels(self) -> dict[Bound, float]:
        """The known levels."""
        every: dict[Bound, float | None] = {"arithmetic": self.arithmetic_ns, "L2": self.l2_ns, "HBM": self.hbm_ns}
        return {name: value for name, value in every.items() if value is not None}

    @property
    def time_ns(self) -> float | None:
        """The longest of them; None where none is known."""
        return max(self.levels.values(), default=None)

    @property
    def binds(self) -> Bound | None:
        """The level that takes this time."""
        levels = self.levels
        return max(levels, key=levels.__getitem__) if levels else None

    def __add__(self, other: TimeBound) -> TimeBound:
        """Return the bound of both works together. Unknown plus anything is unknown."""
        pairs = zip(self._parts, other._parts, strict=True)
        return TimeBound(*(None if one is None or two is None else one + two for one, two in pairs))

    @property
    def _parts(self) -> tuple[float | None, float | None, float | None]:
        return self.arithmetic_ns, self.l2_ns, self.hbm_ns

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        parts = {"arithmetic_ns": self.arithmetic_ns, "l2_ns": self.l2_ns, "hbm_ns": self.hbm_ns}
        known = {name: value for name, value in parts.items() if value is not None}
        return known if self.time_ns is None else {"time_ns": self.time_ns, "binds": self.binds, **known}


def time_bound(
    machine: Machine,
    *,
    flops: int | None = None,
    dtype: ParamValue = None,
    matmul_types: Collection[str] = (),
    requested_bytes: int | None = None,
    hbm_read_bytes: int | None = None,
    hbm_write_bytes: int | None = None,
) -> TimeBound:
    """Return the least time of so many FLOPs and bytes on a machine.

    FLOPs take the peak of `peak_dtype`, and bytes at HBM the fastest measured rate, or the data sheet's: the
    bound is never too long. Bytes that are written take at least their time at the writing rate.
    """
    l2 = machine.level("l2").bandwidth_bytes_per_s
    return TimeBound(
        None if flops is None else _seconds(flops, _peak(machine, dtype, matmul_types)),
        None if requested_bytes is None else _seconds(requested_bytes, l2),
        _hbm_ns(machine, hbm_read_bytes, hbm_write_bytes),
    )


def fastest_hbm(machine: Machine) -> float | None:
    """Return the bytes per second that HBM does not exceed.

    They are those of the fastest measured access, or the data sheet's.
    """
    hbm = machine.level("hbm")
    return max(hbm.rates.values(), default=hbm.bandwidth_bytes_per_s)


def _hbm_ns(machine: Machine, read_bytes: int | None, write_bytes: int | None) -> float | None:
    if read_bytes is None or write_bytes is None:
        return None
    writing = machine.level("hbm").rates.get("write")
    parts = _seconds(read_bytes + write_bytes, fastest_hbm(machine)), _seconds(write_bytes, writing)
    return max((part for part in parts if part is not None), default=None)


def _seconds(amount: int, per_second: float | None) -> float | None:
    """Return nanoseconds; None where the rate is not known."""
    return None if per_second is None else amount / per_second * 1e9


def _peak(machine: Machine, dtype: ParamValue, matmul_types: Collection[str]) -> float | None:
    name = peak_dtype(machine, dtype, matmul_types)
    return None if name is None else machine.peaks[name].flops_per_s


PEAKS: Mapping[str, str] = {
    "f32": "tfloat32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8",
    "f8E5M2": "float8",
    "i8": "int8",
    "f4E2M1FN": "float4",
}
"""Peak of products by their operands' element type in MLIR.

Products of float32 may run as tfloat32.
"""


def peak_dtype(machine: Machine, dtype: ParamValue = None, matmul_types: Collection[str] = ()) -> str | None:
    """Return the dtype whose peak no such product passes.

    `matmul_types` are the operands' element types in MLIR; without any, `dtype` is the operands'. Of several types, and where
    one has no known peak, the fastest counts. None for a machine without peaks.
    """
    named = DTYPE_ALIASES.get(str(dtype), str(dtype))
    names = [PEAKS.get(one, "") for one in matmul_types] or ["tfloat32" if named == "float32" else named]
    known = [name for name in names if name in machine.peaks]
    candidates = known if len(known) == len(names) else list(machine.peaks)
    return max(candidates, key=lambda one: machine.peaks[one].flops_per_s, default=None)
