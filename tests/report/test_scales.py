"""Axis limits and ticks: data are inside, ticks are readable."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.report.chart import Axis
from ioaware.report.scales import MAX_TICKS, limits, ticks

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
