"""Names of curves and points do not overlap; no line crosses a point's name."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.report.chart import Axis, Cell, Panel, Series
from ioaware.report.end_labels import end_labels, spread
from ioaware.report.label_boxes import Box
from ioaware.report.scales import panel_limits

SIZE = Axis("N (tokens)", "size")
BYTES = Axis("traffic (bytes)", "bytes")


def test_labels_at_curve_ends_do_not_overlap() -> None:
    series = tuple(
        Series(name, name, "predict", (1.0, 2.0), (1.0, end), label=name)
        for name, end in (("a", 10.0), ("b", 10.1), ("c", 10.2))
    )
    panel = Panel(BYTES, series)
    low, high = panel_limits(panel)
    places = sorted(label.y for label in end_labels(Cell("", SIZE, (panel,)), panel))
    assert low <= places[0] < places[1] < places[2] <= high
    assert places[1] / places[0] > 1.05


def test_labels_of_single_points_are_below_them_and_apart() -> None:
    roof = Series("roof", "ink", "ceiling", (1.0, 1000.0), (100.0, 100.0))
    on_it = [
        Series(name, "flash1", "simulate", (x,), (100.0,), label=f"at {name} bytes") for name, x in (("a", 50.0), ("b", 60.0))
    ]
    panel = Panel(Axis("rate", "rate", limits=(1.0, 1000.0)), (roof, *on_it))
    heights = [label.y for label in end_labels(Cell("", SIZE, (panel,)), panel)]
    assert max(heights) < 100
    assert heights[0] > 1.5 * heights[1]


def test_a_label_does_not_cover_points_of_its_curve() -> None:
    """A curve that turns back has its label at its end.

    This is so unless points follow at that height.
    """
    for turn, place in ((12.0, 20.0), (1e3, 10.0)):
        seen = Series("a", "a", "measure", (1.0, 1e4, 20.0, 10.0), (1e6, 1e6, turn, 11.0))
        panel = Panel(BYTES, (seen, Series("a", "a", "path", seen.x, seen.y, label="a")))
        assert [label.x for label in end_labels(Cell("", SIZE, (panel,)), panel)] == [place]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=6).map(sorted))
def test_spread_keeps_order_and_gap(places: list[float]) -> None:
    moved = spread(places, 0.1)
    assert all(after - before > 0.09 for before, after in pairwise(moved))


def test_a_series_with_unequal_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Series("s", "flash1", "trace", (1.0,), (1.0, 2.0))


def test_a_points_name_is_above_it_where_a_line_crosses_the_place_below() -> None:
    x, rate = Axis("n", "number", limits=(1.0, 1000.0)), Axis("rate", "rate", limits=(1.0, 1000.0))
    point = Series("p", "flash1", "simulate", (100.0,), (300.0,), label="compulsory")
    crossing = Series("roof", "ink", "ceiling", (100.0, 300.0), (100.0, 300.0))
    for lines, anchor in (((), "start"), ((crossing,), "end")):
        panel = Panel(rate, (point, *lines))
        (label,) = end_labels(Cell("", x, (panel,)), panel)
        assert label.anchor == anchor
        assert (label.y > 300) == (anchor == "end")


def test_a_box_is_crossed_by_the_lines_that_enter_it() -> None:
    box = Box(1.0, 2.0, 1.0, 2.0)
    through = [[(0.0, 0.0), (3.0, 3.0)], [(1.5, 3.0), (1.5, 0.0)], [(1.2, 1.2), (1.3, 1.3)], [(3.0, 1.5), (0.0, 1.5)]]
    beside = [[(0.0, 1.5), (3.0, 4.5)], [(2.5, 0.0), (2.5, 3.0)], [(0.0, 0.0), (0.9, 1.5)], [(1.0, 3.0), (2.0, 2.1)]]
    assert all(box.crossed_by([line]) for line in through)
    assert not any(box.crossed_by([line]) for line in beside)
