"""Axis limits, ticks and label positions.

Data are inside, ticks are readable, and labels do not overlap.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.report.chart import Axis, Cell, Panel, Series
from ioaware.report.scales import MAX_TICKS, end_labels, limits, panel_limits, spread, ticks

SIZE = Axis("N (tokens)", "size")
BYTES = Axis("traffic (bytes)", "bytes")
RATIO = Axis("ratio", "ratio", log=False)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(1e-3, 1e15), max_size=20), st.sampled_from([SIZE, BYTES, Axis("n", "number", log=False), RATIO]))
def test_limits_contain_the_data_and_at_least_two_ticks(values: list[float], axis: Axis) -> None:
    low, high = limits(axis, values)
    assert low < high
    assert all(low <= value <= high for value in values)
    places = [place for place, _ in ticks(axis, low, high)]
    assert all(low <= place <= high for place in places)
    assert places == sorted(places)
    if axis is not SIZE:
        assert len(places) >= 2
    assert len(places) <= 3 * MAX_TICKS


def test_sizes_are_labelled_at_powers_of_two() -> None:
    low, high = limits(SIZE, [128, 65536])
    labels = [label for _, label in ticks(SIZE, low, high)]
    assert labels[-1] == "64Ki"
    assert set(labels) <= {"128", "256", "512", "1Ki", "2Ki", "4Ki", "8Ki", "16Ki", "32Ki", "64Ki"}


def test_a_wide_axis_of_sizes_has_few_labels() -> None:
    labels = [label for _, label in ticks(SIZE, 1.0, 2.0**40)]
    assert 2 <= len(labels) <= MAX_TICKS
    assert labels[-1] == "1024Gi"


def test_bytes_are_labelled_at_decades_with_their_unit() -> None:
    low, high = limits(BYTES, [1e5, 1e10])
    assert [label for _, label in ticks(BYTES, low, high)] == ["100 kB", "1 MB", "10 MB", "100 MB", "1 GB", "10 GB"]


def test_limits_of_a_ratio_are_never_narrower_than_noise() -> None:
    low, high = limits(RATIO, [1.000001, 0.999999])
    assert low <= 0.999
    assert high >= 1.001


def test_labels_at_curve_ends_do_not_overlap() -> None:
    series = tuple(
        Series(name, name, "predict", (1.0, 2.0), (1.0, end), label=name)
        for name, end in (("a", 10.0), ("b", 10.1), ("c", 10.2))
    )
    panel = Panel(BYTES, series)
    low, high = panel_limits(panel)
    places = sorted(text_y for _, text_y, _, _ in end_labels(Cell("", SIZE, (panel,)), panel))
    assert low <= places[0] < places[1] < places[2] <= high
    assert places[1] / places[0] > 1.05


def test_labels_of_single_points_are_below_them_and_apart() -> None:
    roof = Series("roof", "ink", "ceiling", (1.0, 1000.0), (100.0, 100.0))
    on_it = [
        Series(name, "flash1", "simulate", (x,), (100.0,), label=f"at {name} bytes") for name, x in (("a", 50.0), ("b", 60.0))
    ]
    panel = Panel(Axis("rate", "rate", limits=(1.0, 1000.0)), (roof, *on_it))
    heights = [text_y for _, text_y, _, _ in end_labels(Cell("", SIZE, (panel,)), panel)]
    assert max(heights) < 100
    assert heights[0] > 1.5 * heights[1]


def test_a_label_does_not_cover_points_of_its_curve() -> None:
    """A curve that turns back has its label at its end.

    This is so unless points follow at that height.
    """
    for turn, place in ((12.0, 20.0), (1e3, 10.0)):
        seen = Series("a", "a", "measure", (1.0, 1e4, 20.0, 10.0), (1e6, 1e6, turn, 11.0))
        panel = Panel(BYTES, (seen, Series("a", "a", "path", seen.x, seen.y, label="a")))
        assert [x for x, *_ in end_labels(Cell("", SIZE, (panel,)), panel)] == [place]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=6).map(sorted))
def test_spread_keeps_order_and_gap(places: list[float]) -> None:
    moved = spread(places, 0.1)
    assert all(after - before > 0.09 for before, after in pairwise(moved))


def test_a_series_with_unequal_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Series("s", "flash1", "trace", (1.0,), (1.0, 2.0))
