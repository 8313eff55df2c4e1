"""Third-party kernels: derived against measured bytes.

The figure of their ceilings is tested too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioaware.report.figures.what_binds import EXPONENTIALS, TENSOR_FLOPS, units
from ioaware.report.kernel_points import Pair, pairs, worst_ratio
from ioaware.result import Check, Launch, Result, Timing, Traffic

TARGET = "ioaware.kernels.attention.targets:hopper"
HERE = {"gpu": "NVIDIA H200", "sm_count": 132}


def both(n: int = 4096, d: int = 128, *, causal: bool = False, clock: int = 2000, **changes: Any) -> list[Result]:
    """Return a derived and a measured point at 2048 FLOP a clock and SM.

    This holds if the clock is 2000 MHz.
    """
    params = {"batch": 1, "heads": 16, "seq_len": n, "head_dim": d, "causal": causal}
    flops = 4 * n * n * d * 16
    compulsory, total = Traffic(60_000, 20_000), Traffic(1_000_000, 100_000)
    derived = Result("derive", TARGET, params, requested=total, compulsory=compulsory, flops=flops, exact=True)
    kernel = Launch("hopper_forward_kernel", (132, 1, 1), origin="triton", requested=Traffic(1_002_000, 100_000))
    kernel = replace(kernel, hbm=Traffic(90_000, 10_000))
    fill = Launch("fill", (1, 1, 1), origin="torch", requested=Traffic(7, 7), hbm=Traffic(7, 7))
    time_ns = flops / (2048 * 132 * 2e9) * 1e9
    measured = Result(
        "measure",
        TARGET,
        params,
        requested=Traffic(1_002_007, 100_007),
        launches=(kernel, fill),
        check=Check(1e-4, 2e-3),
        exact=False,
        timing=Timing(time_ns, time_ns, time_ns, time_ns, 9),
        telemetry={"before": {"sm_clock_mhz": clock}},
        environment=HERE,
    )
    return [derived, replace(measured, **changes)]


def test_a_pair_compares_the_triton_kernels() -> None:
    (pair,) = pairs(both())
    assert pair.name == "hopper"
    assert (pair.read_ratio, pair.write_ratio) == (pytest.approx(1.002), 1.0)
    assert pair.hbm_bytes == 100_000
    assert pair.intensity == pytest.approx(4 * 4096**2 * 128 * 16 / 100_000)
    assert pair.flops_per_clock_and_sm == pytest.approx(2048)
    assert worst_ratio([pair]) == pytest.approx(0.002)


@pytest.mark.parametrize("telemetry", [{}, {"before": 5}, {"before": {}}, {"before": {"sm_clock_mhz": "x"}}])
def test_telemetry_of_another_form_has_no_clock(telemetry: dict[str, Any]) -> None:
    derived, measured = both()
    (pair,) = pairs([derived, replace(measured, telemetry=telemetry)])
    assert pair.clock_mhz is None
    assert pair.flops_per_clock_and_sm is None


def test_flops_per_clock_do_not_depend_on_the_clock() -> None:
    """The same time at half the clock gives twice the FLOP a clock."""
    (pair,) = pairs(both(clock=1000))
    assert pair.flops_per_clock_and_sm == pytest.approx(4096)


def test_wrong_failed_or_underived_points_are_no_pairs() -> None:
    derived, measured = both()
    assert pairs([measured]) == []
    assert pairs([derived]) == []
    for change in ({"check": Check(0.1, 2e-3)}, {"check": None}, {"status": "failed"}, {"status": "unstable"}):
        assert pairs([derived, replace(measured, **change)]) == []
    (alone,) = [pair for pair in pairs([derived, measured, *both(512)[1:]]) if pair.derived is None]
    assert (alone.read_ratio, alone.flops, alone.intensity) == (None, None, None)


def test_parameters_left_at_none_are_not_another_point() -> None:
    derived, measured = both()
    (pair,) = pairs([derived, replace(measured, params={**measured.params, "kv_len": None})])
    assert pair.derived is derived


def figure_of(*results: Result) -> Any:
    figure = units(pairs(list(results)))
    assert figure is not None
    return figure


def test_ceilings_are_those_of_the_units() -> None:
    figure = figure_of(*both(d=64), *both(d=128), *both(d=256, causal=True))
    assert [cell.title for cell in figure.cells] == ["d = 64, full", "d = 128, full", "d = 256, causal"]
    narrow, medium, wide = ({one.name: one for one in cell.panels[0].series} for cell in figure.cells)
    assert "exponential units" not in narrow
    assert "and exponentials" in " ".join(narrow["HBM and tensor cores"].tags)
    assert set(medium["exponential units"].y) == {EXPONENTIALS * 4 * 128.0}
    assert set(wide["exponential units"].y) == {EXPONENTIALS * 4 * 256.0}
    assert max(narrow["HBM and tensor cores"].y) == max(wide["HBM and tensor cores"].y) == TENSOR_FLOPS
    assert narrow["matmuls and exponentials one after the other"].y[0] == TENSOR_FLOPS / 2
    assert medium["matmuls and exponentials one after the other"].y[0] == pytest.approx(TENSOR_FLOPS * 2 / 3)
    assert wide["matmuls and exponentials one after the other"].y[0] == pytest.approx(TENSOR_FLOPS * 4 / 5)
    low = narrow["HBM and tensor cores"]
    assert low.y[0] / low.x[0] == pytest.approx(2 * 3201e6 * 6016 / 8 / 2e9 / 132)


def test_throttled_points_have_their_own_series_and_ends_are_labelled() -> None:
    figure = figure_of(*both(512), *both(4096), *both(16384, status="throttled"))
    series = {one.name: one for one in figure.cells[0].panels[0].series}
    assert len(series["hopper, measured"].x) == 2
    assert len(series["hopper, throttled or unstable"].x) == 1
    assert (series["hopper, path"].tags, series["hopper, path"].label) == (("N=512", "", ""), "N=16Ki")
    assert "status: throttled" in series["hopper, throttled or unstable"].hover[0]
    assert "reads 1.00200, writes 1.00000" in series["hopper, measured"].hover[0]


def test_no_figure_without_points_or_for_a_gpu_whose_units_are_not_these() -> None:
    assert units([]) is None
    derived, measured = both()
    assert units(pairs([derived, replace(measured, environment={**HERE, "gpu": "NVIDIA B200"})])) is None


def test_spilled_points_are_told_apart() -> None:
    derived, measured = both(512)
    kernel = replace(measured.launches[0], local_bytes=8, requested=Traffic(1_000_000, 230_000))
    spilling = sorted(pairs([*both(), derived, replace(measured, launches=(kernel,))]), key=lambda pair: pair.spills)
    assert [pair.spills for pair in spilling] == [False, True]


def test_a_pair_without_counters_has_no_ratio() -> None:
    derived, measured = both()
    bare = Pair(replace(measured, launches=(Launch("k", (1,), origin="triton"),)), derived)
    assert bare.read_ratio is None
    assert bare.hbm_bytes is None


def test_ratios_are_of_sectors_with_atomics_among_the_writes() -> None:
    derived, measured = both()
    total = Traffic(900_000, 40_000, atomic_bytes=50_000, read_sector_bytes=1_002_000, write_sector_bytes=50_000)
    pair = Pair(measured, replace(derived, requested=total))
    assert (pair.read_ratio, pair.write_ratio) == (1.0, 1.0)
