"""Compute the least time that bytes and FLOPs take on a machine.

Which of the two binds comes with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ioaware.machine import Machine
from ioaware.machine.time_bound import peak_dtype
from ioaware.result import ParamValue

HBM_BYTES = "bytes at HBM"
ARITHMETIC = "arithmetic"


@dataclass(frozen=True, slots=True)
class Rates:
    """What a machine does in a second: bytes at HBM, and FLOPs of one dtype."""

    machine: str
    hbm_bytes_per_s: float
    flops_per_s: float
    dtype: str
    source: str


@dataclass(frozen=True, slots=True)
class TimeFloor:
    """The least time of some work.

    `binds` names what takes it; empty where nothing is known of the work.
    """

    bytes_ns: float | None
    flops_ns: float | None

    @property
    def time_ns(self) -> float | None:
        """The longer of the two.

        None where bytes are unknown and there is no arithmetic to go by.
        """
        if self.bytes_ns is None and not self.flops_ns:
            return None
        return max((part for part in (self.bytes_ns, self.flops_ns) if part is not None), default=None)

    @property
    def binds(self) -> str:
        """Return what takes that time."""
        if not self.time_ns:
            return ""
        return HBM_BYTES if self.time_ns == self.bytes_ns else ARITHMETIC


def rates_of(machine: Machine, dtype: ParamValue = None, matmul_types: Collection[str] = ()) -> Rates | None:
    """Return the rates of a machine; None without any.

    That of arithmetic is the one of `peak_dtype`.
    """
    name = peak_dtype(machine, dtype, matmul_types)
    if name is None or machine.level("hbm").bandwidth_bytes_per_s is None:
        return None
    peak = machine.peaks[name]
    bandwidth = machine.bandwidth_bytes_per_s("hbm")
    source = f"HBM: {machine.level('hbm').bandwidth_source}; {name}: {peak.source}"
    return Rates(machine.name, bandwidth, peak.flops_per_s, name, source)


def time_floor(rates: Rates | None, hbm_bytes: int | None, flops: int | None) -> TimeFloor:
    """Return the least time of so many bytes and FLOPs."""
    if rates is None:
        return TimeFloor(None, None)
    return TimeFloor(
        None if hbm_bytes is None else hbm_bytes / rates.hbm_bytes_per_s * 1e9,
        None if flops is None else flops / rates.flops_per_s * 1e9,
    )
