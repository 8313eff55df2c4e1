"""Numbers as text: units, rounding at their borders, unambiguous forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.display.units import bytes_text, count_text, percent_text, significant, size_text, time_text, times_text

FACTORS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (142_606_336, "142.6 MB"),
        (999_999, "1 MB"),
        (34_393.29e6, "34.39 GB"),
    ],
)
def test_bytes(value: float | None, text: str) -> None:
    assert bytes_text(value) == text


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 10**17))
def test_bytes_can_be_parsed_back(value: int) -> None:
    number, unit = bytes_text(value, 6).split()
    assert float(number.replace(",", "")) * FACTORS[unit] == pytest.approx(value, rel=1e-5)
    assert 1 <= float(number.replace(",", "")) < 1000 or unit == "PB"


def test_padded_columns_have_the_same_number_of_digits() -> None:
    assert [bytes_text(value, padded=True) for value in (421_000_000, 1_050_000)] == ["421.0 MB", "1.050 MB"]
    assert times_text(1.0, padded=True) == "1.00×"
    assert bytes_text(512, padded=True) == "512 B"


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(0.5, "0.5 ns"), (12.0, "12 ns"), (1_234.0, "1.23 µs"), (2.5e6, "2.5 ms"), (4.2e9, "4.2 s"), (None, "–")],
)
def test_times(time_ns: float | None, text: str) -> None:
    assert time_text(time_ns) == text


@pytest.mark.parametrize(
    ("value", "text"), [(512, "512"), (1024, "1Ki"), (1500, "1,500"), (65536, "64Ki"), (2**20, "1Mi"), (2**30, "1Gi")]
)
def test_sizes(value: int, text: str) -> None:
    assert size_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.01234, "0.0123"), (1234.5, "1,234"), (math.nan, "–")])
def test_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_a_deviation_that_rounds_to_zero_is_not_shown_as_zero() -> None:
    assert percent_text(0) == "0 %"
    assert percent_text(1e-9) == "below 0.0001 %"
    assert percent_text(-0.046) == "-4.6 %"


def test_counts_have_a_power_of_ten() -> None:
    assert [count_text(value) for value in (0, 12, 999_960, 549_755_813_888, 2e18)] == ["0", "12", "1 M", "549.8 G", "2,000 P"]
