"""Least times: bytes over bandwidth and FLOPs over peak.

The longer one binds.
"""

from __future__ import annotations

from dataclasses import replace

from ioaware.machine import PRESETS
from ioaware.report.pages.time_floors import ARITHMETIC, HBM_BYTES, Rates, rates_of, time_floor

RATES = Rates("a GPU", 1e12, 1e14, "float16", "invented")


def test_bytes_bind_below_the_ridge_and_arithmetic_above() -> None:
    below, above = time_floor(RATES, 10**9, 10**10), time_floor(RATES, 10**9, 10**12)
    assert (below.time_ns, below.binds) == (1e6, HBM_BYTES)
    assert (above.time_ns, above.binds) == (1e7, ARITHMETIC)


def test_unknown_counts_bind_nothing() -> None:
    assert time_floor(RATES, None, None).time_ns is None
    assert time_floor(RATES, None, None).binds == ""
    assert time_floor(RATES, None, 0).time_ns is None
    assert time_floor(RATES, None, 10**12).binds == ARITHMETIC
    assert time_floor(None, 5, 5).time_ns is None


def test_no_bytes_take_no_time_and_nothing_binds() -> None:
    assert time_floor(RATES, 0, 0).binds == ""


def test_the_peak_is_of_the_dtype_or_the_fastest() -> None:
    machine = PRESETS["H200"]
    single, fastest = rates_of(machine, "float32"), rates_of(machine)
    assert single is not None
    assert fastest is not None
    assert single.flops_per_s == machine.peak("tfloat32").flops_per_s, "products of float32 may run as those of TF32"
    assert fastest.flops_per_s == max(peak.flops_per_s for peak in machine.peaks.values())


def test_a_machine_without_peaks_has_no_rates() -> None:
    assert rates_of(replace(PRESETS["H200"], peaks={})) is None
