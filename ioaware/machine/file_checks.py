"""Check that the numbers of a machine file agree with its preset and each other.

A mistyped exponent or a rate in GB/s gives a number that no GPU of that kind has.
"""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.errors import DataError
from ioaware.machine.model import Machine

FAR = 16.0
"""A number is a mistake where it is this many times off its preset's.

A partition of a GPU has at least an eighth of it.
"""
LEAST_L2_BYTES = 4096
MOST_RATE, LEAST_RATE = 2.0, 0.25
"""Limits of a measured HBM rate, over the HBM's bandwidth.

A calibration's bandwidth is that of a copy, which reading passes, but never twofold.
"""


def check_machine(machine: Machine, preset: Machine, where: str) -> None:
    """Raise `DataError` for numbers that contradict each other.

    `where` is the file.
    """
    for key, value, usual in _pairs(machine, preset):
        if not usual / FAR <= value <= usual * FAR:
            raise DataError(
                f"machine file {where}: {key} is {value:g}, and the preset {preset.name} has {usual:g}",
                f"Correct it (no number may be {FAR:g} times off), or start from another preset.",
            )
    l2_bytes = machine.level("l2").capacity_bytes
    if l2_bytes < LEAST_L2_BYTES:
        raise DataError(f"machine file {where}: levels.l2.capacity_bytes is {l2_bytes}", f"An L2 has {LEAST_L2_BYTES} or more.")
    if l2_bytes >= machine.level("hbm").capacity_bytes:
        raise DataError(f"machine file {where}: the L2 is not smaller than the HBM", "Correct levels.l2 or levels.hbm.")
    if machine.level("shared").capacity_bytes > machine.level("l1").capacity_bytes:
        raise DataError(
            f"machine file {where}: shared memory is part of the L1 but larger than it", "Correct levels.shared or levels.l1."
        )
    _check_hbm_rates(machine, where)
    _check_l2_rate(machine, where)


def _pairs(machine: Machine, preset: Machine) -> Iterator[tuple[str, float, float]]:
    """Yield each number's key, its value and its preset's.

    Fewer SMs, another L2 and another HBM are questions worth asking.
    """
    yield "sms", max(machine.sms, preset.sms), preset.sms
    for level, usual in zip(machine.levels, preset.levels, strict=True):
        if level.scope == "sm":
            yield f"levels.{level.name}.capacity_bytes", level.capacity_bytes, usual.capacity_bytes
        if level.bandwidth_bytes_per_s is not None and usual.bandwidth_bytes_per_s is not None:
            yield f"levels.{level.name}.bandwidth_bytes_per_s", level.bandwidth_bytes_per_s, usual.bandwidth_bytes_per_s
    for dtype in machine.peaks.keys() & preset.peaks.keys():
        yield f"peaks.{dtype}.flops_per_s", machine.peaks[dtype].flops_per_s, preset.peaks[dtype].flops_per_s
    if machine.link is not None:
        yield "link.reached_bytes_per_s", machine.link.ceiling_bytes_per_s, machine.link.bandwidth_bytes_per_s


def _check_hbm_rates(machine: Machine, where: str) -> None:
    """Raise `DataError` where a rate contradicts the memory's bandwidth."""
    hbm = machine.level("hbm")
    if hbm.bandwidth_bytes_per_s is None:
        return
    for rate, value in hbm.rates.items():
        share = value / hbm.bandwidth_bytes_per_s
        if not LEAST_RATE <= share <= MOST_RATE:
            what = "more than twice" if share > MOST_RATE else "less than a quarter of"
            raise DataError(
                f"machine file {where}: levels.hbm.{rate}_bytes_per_s is {value:g}, {what} the HBM's bandwidth of "
                f"{hbm.bandwidth_bytes_per_s:g}",
                "Correct it, or levels.hbm.bandwidth_bytes_per_s.",
            )


def _check_l2_rate(machine: Machine, where: str) -> None:
    """Raise `DataError` where the L2's rate contradicts that of the memory behind it."""
    hbm, l2 = machine.level("hbm").bandwidth_bytes_per_s, machine.level("l2").bandwidth_bytes_per_s
    if hbm is None or l2 is None:
        return
    if l2 < hbm / 2:
        raise DataError(
            f"machine file {where}: levels.l2.bandwidth_bytes_per_s is {l2:g}, less than half of the HBM's {hbm:g}",
            "An L2 is faster than the memory behind it.",
        )
    if l2 > hbm * FAR:
        raise DataError(
            f"machine file {where}: levels.l2.bandwidth_bytes_per_s is {l2:g}, more than {FAR:g} times the HBM's {hbm:g}",
            "Correct levels.l2 or levels.hbm.",
        )
