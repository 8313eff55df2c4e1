"""Figures as data: axes with units, and one mark for each source.

Properties are those that plotly knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ioaware.report.build import draw_figures
from ioaware.report.chart import Cell, Figure, Panel, Series
from ioaware.report.comparable_points import Points
from ioaware.report.draw_html import draw_html
from ioaware.report.draw_png import draw_png
from ioaware.report.figures.blocks import blocks
from ioaware.report.figures.exponents import exponents
from ioaware.report.figures.memory import memory
from ioaware.report.figures.roofline import Roofs, roofline
from ioaware.report.figures.traffic import traffic
from ioaware.result import Result

Make = Callable[..., Result]


@pytest.fixture(scope="module")
def points(results: Sequence[Result]) -> Points:
    return Points(results)


@pytest.fixture
def figures(points: Points, claim_of: Callable[..., Any], roofs: Roofs) -> list[Figure]:
    return draw_figures(points, [claim_of()], roofs)


def panels(figure: Figure) -> Iterator[tuple[Cell, Panel]]:
    for cell in figure.cells:
        for panel in cell.panels:
            yield cell, panel


def series(figure: Figure | None, mark: str) -> list[Series]:
    assert figure is not None
    return [one for _, panel in panels(figure) for one in panel.series if one.mark == mark]


def test_every_figure_is_drawn_once(figures: list[Figure]) -> None:
    assert [figure.name for figure in figures] == ["traffic", "traffic_causal", "blocks", "memory", "roofline", "exponents"]


def test_every_axis_names_its_unit_and_every_panel_shows_something(figures: list[Figure]) -> None:
    for figure in figures:
        assert figure.caption
        for cell, panel in panels(figure):
            assert cell.x.label.endswith(")"), (figure.name, cell.x.label)
            assert panel.y.label.endswith(")") or panel.y.ticks, (figure.name, panel.y.label)
            assert panel.series, (figure.name, cell.title)


def test_requested_and_hbm_have_panels_of_their_own(points: Points) -> None:
    figure = traffic(points, causal=False)
    assert figure is not None
    labels = {panel.y.label for _, panel in panels(figure)}
    assert {"requested per head (bytes)", "HBM traffic per head (bytes)"} <= labels
    for cell in figure.cells:
        assert len({panel.y.label.split()[0] for panel in cell.panels} & {"requested", "HBM"}) == 1


def test_all_four_sources_of_a_curve_are_drawn(points: Points) -> None:
    figure = traffic(points, causal=False)
    for mark in ("predict", "trace", "measure", "compulsory", "bound"):
        assert series(figure, mark), mark
    assert figure is not None
    assert len(figure.cells) == 4


def test_ratio_of_a_traced_point_is_one(points: Points) -> None:
    figure = traffic(points, causal=False)
    assert figure is not None
    ratios = [one for _, panel in panels(figure) if panel.y.quantity == "ratio" for one in panel.series if one.mark == "trace"]
    assert ratios
    assert {y for one in ratios for y in one.y} == {1.0}


def test_an_unstable_point_is_drawn_apart_and_its_time_never(points: Points, result_of: Make) -> None:
    assert [one.x for one in series(traffic(points, causal=False), "unstable")] == [(3000.0,), (3000.0,)]
    unstable = [result_of("flash2", 4096, block=block, source="measure", status="unstable") for block in (16, 32, 64)]
    figure = blocks(Points([*unstable, *(result_of("flash2", 4096, block=block) for block in (16, 32, 64))]))
    assert figure is not None
    assert not [panel for _, panel in panels(figure) if panel.y.quantity == "time"]


def test_block_study_has_traffic_hbm_and_time_over_the_outer_block(points: Points) -> None:
    figure = blocks(points)
    assert figure is not None
    assert [panel.y.quantity for panel in figure.cells[0].panels] == ["bytes", "bytes", "time"]
    first = figure.cells[0]
    assert first.title == "d = 64, N = 4,096"
    assert dict(first.x.ticks)[64.0] == "64\nM=16Ki"
    measured = [one for one in first.panels[0].series if one.mark == "measure"]
    assert all(one.x == (16.0, 32.0, 64.0, 128.0, 256.0) for one in measured)


def test_the_bound_over_m_comes_only_from_predictions_for_that_m(points: Points, result_of: Make) -> None:
    assert not series(blocks(points), "bound")
    sized = []
    for block in (16, 32, 64):
        params = {**result_of("flash2", 4096).params, "sram_elements": 4 * 64 * block}
        sized.append(result_of("flash2", 4096, block=block, params=params, lower_bound_bytes=1000 // block))
    seen = [result_of("flash2", 4096, block=block, source="trace") for block in (16, 32, 64)]
    (bound,) = series(blocks(Points([*sized, *seen])), "bound")
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
    assert "not known" in figure.caption


def test_exponents_are_shown_as_difference_from_theory(claim_of: Callable[..., Any]) -> None:
    figure = exponents([claim_of()])
    dots = series(figure, "interval")
    assert sum(len(one.x) for one in dots) == 5
    assert all(x == pytest.approx(0.01) for one in dots for x in one.x)
    assert all(low < 0 < high for one in dots for low, high in one.spread)


def test_an_interval_that_is_not_finite_is_not_drawn(claim_of: Callable[..., Any]) -> None:
    row = {
        "quantity": "q",
        "variable": "N",
        "exponent": 2.0,
        "low": "-inf",
        "high": "inf",
        "expected": 2,
        "verdict": "inconclusive",
    }
    assert exponents([claim_of(exponents=[row])]) is None


@pytest.mark.parametrize("source", ["predict", "trace", "measure"])
def test_one_point_is_enough_to_draw(result_of: Make, source: str, roofs: Roofs) -> None:
    for figure in draw_figures(Points([result_of("flash2", 512, source=source)]), [], roofs):
        assert draw_png(figure).startswith(b"\x89PNG")
        assert [draw_html(cell) for cell in figure.cells]


def test_no_points_no_figures() -> None:
    assert draw_figures(Points([]), [], None) == []


def test_plotly_accepts_every_graph(figures: list[Figure]) -> None:
    """plotly's Python package refuses properties and values unknown to plotly.js."""
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for figure in figures:
        for cell in figure.cells:
            graph = json.loads(json.dumps(draw_html(cell)))
            graph_objects.Figure(_plain_colors(graph))


def _plain_colors(value: Any) -> Any:
    """Replace colour tokens by a colour.

    The page's script does so with those of the theme.
    """
    if isinstance(value, dict):
        return {
            key: "#123456" if key.endswith("color") and isinstance(item, str) else _plain_colors(item)
            for key, item in value.items()
        }
    return [_plain_colors(item) for item in value] if isinstance(value, list) else value


def test_equal_figures_give_equal_pngs(points: Points) -> None:
    figure = memory(points)
    assert figure is not None
    assert draw_png(figure) == draw_png(figure)
