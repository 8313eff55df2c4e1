"""Pair measured counters of third-party kernels with the derivation.

The derivation is of the same point. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ioaware.result import BYTES_HOLD, ParamValue, Result, Traffic, total


@dataclass(frozen=True, slots=True)
class Pair:
    """One measured point of a target and, where there is one, its derivation.

    The derivation is for the same parameters.
    """

    measured: Result
    derived: Result | None

    @property
    def name(self) -> str:
        """The target's function: `hopper` of `ioaware.kernels.attention.targets:hopper`."""
        return self.measured.target.rpartition(":")[2]

    @property
    def params(self) -> Mapping[str, ParamValue]:
        return self.measured.params

    @property
    def measured_requested(self) -> Traffic | None:
        """Requested bytes of the Triton kernels by the counters.

        Derivation predicts these.
        """
        return total(launch.requested for launch in self.measured.launches if launch.origin == "triton")

    @property
    def spills(self) -> bool:
        """Whether a Triton kernel spills registers to memory.

        Derivation does not see that traffic.
        """
        return any(launch.local_bytes for launch in self.measured.launches if launch.origin == "triton")

    @property
    def hbm_bytes(self) -> int | None:
        """Bytes between HBM and the L2, of the same kernels."""
        moved = total(launch.hbm for launch in self.measured.launches if launch.origin == "triton")
        return moved.total_bytes if moved else None

    @property
    def derived_read_bytes(self) -> int | None:
        """Read bytes that counters should report.

        They are sectors, where derivation knows them, else elements.
        """
        requested = self.derived.requested if self.derived else None
        return requested and (requested.read_sector_bytes or requested.read_bytes)

    @property
    def derived_write_bytes(self) -> int | None:
        """Written bytes that counters should report; atomics count as writes."""
        requested = self.derived.requested if self.derived else None
        written = requested and (requested.write_sector_bytes or requested.write_bytes)
        return None if requested is None or written is None else written + (requested.atomic_bytes or 0)

    @property
    def read_ratio(self) -> float | None:
        """Bytes read, measured over derived."""
        counted = self.measured_requested
        measured, derived = counted and counted.read_bytes, self.derived_read_bytes
        return measured / derived if measured is not None and derived else None

    @property
    def write_ratio(self) -> float | None:
        """Bytes written and added, measured over derived."""
        counted = self.measured_requested
        measured, derived = counted and counted.write_bytes, self.derived_write_bytes
        return measured / derived if measured is not None and derived else None

    @property
    def flops(self) -> int | None:
        """Derived FLOPs of the kernels' matmuls, padding and masked halves included.

        No counter measured them.
        """
        return self.derived.flops if self.derived else None

    @property
    def intensity(self) -> float | None:
        """FLOP per HBM byte."""
        return self.flops / self.hbm_bytes if self.flops and self.hbm_bytes else None

    @property
    def clock_mhz(self) -> float | None:
        """SM clock at the start of the timed repetitions, after the warm-up."""
        return self.measured.sm_clock_mhz("before")

    @property
    def time_ns(self) -> float | None:
        return self.measured.timing.median_ns if self.measured.timing else self.measured.time_ns

    @property
    def flops_per_clock_and_sm(self) -> float | None:
        """Rate in the unit of the execution units' ceilings, independent of the clock."""
        sms = (self.measured.environment or {}).get("sm_count")
        if not self.flops or not self.time_ns or not self.clock_mhz or not isinstance(sms, int):
            return None
        return self.flops / (self.time_ns * 1e-9) / (self.clock_mhz * 1e6) / sms


def pairs(results: Sequence[Result]) -> list[Pair]:
    """Return every measured point with a derivation, valid bytes and a right output."""
    derived = {_key(result): result for result in results if result.source == "derive" and result.status == "ok"}
    targets = {result.target for result in derived.values()}
    return [
        Pair(result, derived.get(_key(result)))
        for result in sorted(results, key=_order)
        if result.source == "measure" and result.target in targets and _holds(result)
    ]


def _holds(result: Result) -> bool:
    return result.status in BYTES_HOLD and result.check is not None and result.check.passed


def _key(result: Result) -> str:
    known = {name: value for name, value in result.params.items() if value is not None}
    return json.dumps([result.target, known], sort_keys=True)


def _order(result: Result) -> tuple[str, list[tuple[str, float, str]]]:
    def value(name: str) -> tuple[str, float, str]:
        found = result.params[name]
        return (name, float(found), "") if isinstance(found, (int, float)) else (name, 0.0, str(found))

    first = [name for name in ("head_dim", "causal", "seq_len", "kv_len") if name in result.params]
    rest = sorted(name for name in result.params if name not in first)
    return result.target, [value(name) for name in [*first, *rest]]


def worst_ratio(seen: Iterable[Pair]) -> float | None:
    """Return the largest relative difference of measured from derived requested bytes."""
    ratios = [ratio for pair in seen for ratio in (pair.read_ratio, pair.write_ratio) if ratio is not None]
    return max((abs(ratio - 1) for ratio in ratios), default=None)
