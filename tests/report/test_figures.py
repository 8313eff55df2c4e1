"""Figures as data: axes with units, and one mark for each source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from ioaware.machine import PRESETS
from ioaware.report.attention.attention_page import Contents, attention_figures
from ioaware.report.attention.recorded_bytes import NONE
from ioaware.report.chart import Cell, Figure, Panel, Series
from ioaware.report.comparable_points import Points
from ioaware.report.figures.blocks import blocks
from ioaware.report.figures.link_roofline import link_roofline, ridge_length
from ioaware.report.figures.many_gpus import many_gpus
from ioaware.report.figures.memory import memory
from ioaware.report.figures.roofline import Roofs, roofline
from ioaware.report.figures.traffic import traffic
from ioaware.report.svg.plot import WIDE, draw_cell
from ioaware.report.svg.rasterise import png_of
from ioaware.result import Result
from ioaware.simulation.accuracy import point_key

Make = Callable[..., Result]


@pytest.fixture(scope="module")
def points(results: Sequence[Result]) -> Points:
    return Points(results)


def draw_figures(results: Sequence[Result], roofs: Roofs | None) -> list[Figure]:
    figures = attention_figures(Contents(results, (), NONE, roofs=roofs), Points(results))
    return [shown.figure for shown in figures if isinstance(shown.figure, Figure)]


@pytest.fixture
def figures(results: Sequence[Result], roofs: Roofs) -> list[Figure]:
    return draw_figures(results, roofs)


def panels(figure: Figure) -> Iterator[tuple[Cell, Panel]]:
    for cell in figure.cells:
        for panel in cell.panels:
            yield cell, panel


def series(figure: Figure | None, mark: str) -> list[Series]:
    assert figure is not None
    return [one for _, panel in panels(figure) for one in panel.series if one.mark == mark]


def test_every_figure_is_drawn_once(figures: list[Figure]) -> None:
    assert [figure.name for figure in figures] == [
        "traffic",
        "traffic_causal",
        "blocks",
        "memory",
        "many_gpus",
        "link_roofline",
        "roofline",
    ]


def test_every_axis_names_its_unit_and_every_panel_shows_something(figures: list[Figure]) -> None:
    for figure in figures:
        assert figure.caption
        for cell, panel in panels(figure):
            assert cell.x.label.endswith(")"), (figure.name, cell.x.label)
            assert panel.y.label.endswith(")") or panel.y.ticks, (figure.name, panel.y.label)
            assert panel.series, (figure.name, cell.title)


def test_requested_and_hbm_have_panels_of_their_own(points: Points) -> None:
    figure = traffic(points, {}, causal=False)
    assert figure is not None
    labels = {panel.y.label for _, panel in panels(figure)}
    assert {"requested per head (bytes)", "HBM traffic per head (bytes)"} <= labels
    for cell in figure.cells:
        assert len({panel.y.label.split()[0] for panel in cell.panels} & {"requested", "HBM"}) == 1


def test_all_four_sources_of_a_curve_are_drawn(points: Points) -> None:
    figure = traffic(points, {}, causal=False)
    for mark in ("predict", "trace", "measure", "compulsory", "bound"):
        assert series(figure, mark), mark
    assert figure is not None
    assert len(figure.cells) == 4


def test_ratio_of_a_traced_point_is_one(points: Points) -> None:
    figure = traffic(points, {}, causal=False)
    assert figure is not None
    ratios = [one for _, panel in panels(figure) if panel.y.quantity == "ratio" for one in panel.series if one.mark == "trace"]
    assert ratios
    assert {y for one in ratios for y in one.y} == {1.0}


def test_an_unstable_point_is_drawn_apart_and_its_time_never(points: Points, result_of: Make) -> None:
    assert [one.x for one in series(traffic(points, {}, causal=False), "unstable")] == [(3000.0,), (3000.0,)]
    unstable = [result_of("flash2", 4096, block=block, source="measure", status="unstable") for block in (16, 32, 64)]
    figure = blocks(Points([*unstable, *(result_of("flash2", 4096, block=block) for block in (16, 32, 64))]), {})
    assert figure is not None
    assert not [panel for _, panel in panels(figure) if panel.y.quantity == "time"]


def test_block_study_has_traffic_hbm_and_time_over_the_outer_block(points: Points) -> None:
    figure = blocks(points, {})
    assert figure is not None
    assert [panel.y.quantity for panel in figure.cells[0].panels] == ["bytes", "bytes", "time"]
    first = figure.cells[0]
    assert first.title == "d = 64, N = 4,096"
    assert dict(first.x.ticks)[64.0] == "64"
    measured = [one for one in first.panels[0].series if one.mark == "measure"]
    assert all(one.x == (16.0, 32.0, 64.0, 128.0, 256.0) for one in measured)


def test_the_bound_over_m_comes_only_from_predictions_for_that_m(points: Points, result_of: Make) -> None:
    assert not series(blocks(points, {}), "bound")
    sized = []
    for block in (16, 32, 64):
        params = {**result_of("flash2", 4096).params, "sram_elements": 4 * 64 * block}
        sized.append(result_of("flash2", 4096, block=block, params=params, lower_bound_bytes=1000 // block))
    seen = [result_of("flash2", 4096, block=block, source="trace") for block in (16, 32, 64)]
    (bound,) = series(blocks(Points([*sized, *seen]), {}), "bound")
    assert bound.x == (16.0, 32.0, 64.0)
    assert bound.y == (62.0, 31.0, 15.0)


def test_memory_compares_predicted_traced_and_measured(points: Points) -> None:
    for mark in ("predict", "trace", "measure"):
        assert series(memory(points), mark), mark


def test_roofline_places_points_at_flops_over_hbm_bytes(result_of: Make, roofs: Roofs) -> None:
    measured = result_of("flash2", 1024, source="measure", heads=4)
    predicted = result_of("flash2", 1024)
    figure = roofline(Points([predicted, measured]), roofs)
    (dot,) = series(figure, "measure")
    assert measured.hbm is not None
    assert predicted.flops is not None
    assert measured.time_ns is not None
    assert dot.x == pytest.approx((4 * predicted.flops / (measured.hbm.total_bytes or 0),))
    assert dot.y == pytest.approx((4 * predicted.flops / measured.time_ns / 1e3,))
    (roof,) = series(figure, "ceiling")
    assert max(roof.y) == pytest.approx(roofs.peak_flops_per_s / 1e12)
    assert roof.y[0] / roof.x[0] == pytest.approx(roofs.hbm_bytes_per_s / 1e12)


def test_without_a_known_machine_there_is_no_roof_but_a_caption(points: Points) -> None:
    figure = roofline(points, None)
    assert not series(figure, "ceiling")
    assert figure is not None
    assert "unknown" in figure.caption


@pytest.mark.parametrize("source", ["predict", "trace", "measure"])
def test_one_point_is_enough_to_draw(result_of: Make, source: str, roofs: Roofs) -> None:
    for figure in draw_figures([result_of("flash2", 512, source=source)], roofs):
        for cell in figure.cells:
            assert png_of(draw_cell(cell, WIDE, "")).startswith(b"\x89PNG")


def test_no_points_no_figures() -> None:
    assert draw_figures([], None) == []


def test_equal_figures_give_equal_pictures(points: Points) -> None:
    figure = memory(points)
    assert figure is not None
    first, second = (png_of(draw_cell(figure.cells[0], WIDE, "")) for _ in range(2))
    assert first == second


def test_a_caption_has_at_most_sixty_words(figures: list[Figure]) -> None:
    assert {figure.name: len(figure.caption.split()) for figure in figures if len(figure.caption.split()) > 60} == {}


def test_simulated_bytes_are_a_curve_through_the_measured_points(points: Points) -> None:
    measured = [one for one in points.of("measure") if one.config.algorithm == "flash2" and not one.config.causal]
    simulated = {point_key(one.config.algorithm, one.result.params): 1000 * one.num_heads for one in measured}
    curves = series(traffic(points, simulated, causal=False), "simulated curve")
    assert {y for curve in curves for y in curve.y} == {1000.0}
    assert curves[0].x == tuple(float(2**power) for power in range(9, 17))


def test_many_gpus_cross_where_their_bytes_do() -> None:
    """A ring's time passes the matmuls' between 256 and 512 GPUs, a square's never."""
    figure = many_gpus()
    assert figure is not None
    received, times, _ = (cell.panels[0] for cell in figure.cells)
    bytes_of = {one.name: dict(zip(one.x, one.y, strict=True)) for one in received.series}
    assert bytes_of["ring"][1024] > 5 * bytes_of["square"][1024]
    assert max(bytes_of["all-to-all"]) == 64
    assert bytes_of["ring"] == bytes_of["all-gather"]
    assert (received.series[-1].name, received.series[-1].mark) == ("ring", "over"), "dashes let the equal curve be seen"
    seconds = {one.name: dict(zip(one.x, one.y, strict=True)) for one in times.series}
    assert seconds["ring"][256] < seconds["matmuls"][256]
    assert seconds["ring"][512] > seconds["matmuls"][512]
    assert all(seconds["square"][gpus] < seconds["matmuls"][gpus] for gpus in seconds["square"])


def test_a_ring_leaves_nvlinks_slope_at_its_ridge() -> None:
    """Expect 4 H N^2 d / P FLOPs, and 4 H N d (P - 1) / P bytes in bfloat16."""
    figure = link_roofline()
    assert figure is not None
    link = PRESETS["H200"].link
    assert link is not None
    ridge = PRESETS["H200"].peaks["bfloat16"].flops_per_s / link.ceiling_bytes_per_s
    for gpus, cell in zip((2, 4, 8), figure.cells, strict=True):
        assert 0 <= ridge_length(gpus) - ridge * (gpus - 1) < 2 * gpus
        path = cell.panels[0].series[-1]
        assert (path.name, path.mark) == ("NVLink bytes", "over"), "it lies on the limits, and must not be under them"
        lengths = sorted([*(2**power for power in range(11, 19)), ridge_length(gpus)])
        assert list(path.x) == [pytest.approx(length / (gpus - 1)) for length in lengths]
        for length, rate, hover in zip(lengths, path.y, path.hover, strict=True):
            assert ("NVLink binds" if length < ridge_length(gpus) else "matmul binds") in hover
            assert rate * 1e12 == pytest.approx(min(ridge, length / (gpus - 1)) * link.ceiling_bytes_per_s, rel=1e-6)
