"""The sentences of the summary: every number follows from the data, and missing data are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ioaware.report.comparable_points import Points
from ioaware.report.summary import summarise
from ioaware.result import Result, Traffic

Make = Callable[..., Result]


def summary(results: Sequence[Result], claims: Sequence[Any] = ()) -> str:
    return " ".join(summarise(Points(results), claims))


def test_nothing_known_says_so() -> None:
    text = summary([])
    assert "No theorem was checked" in text
    assert "No measurement" in text


def test_verdicts_with_their_checks(claim_of: Callable[..., Any]) -> None:
    text = summary([], [claim_of("theorem1"), claim_of("theorem2", "inconclusive", parts=[])])
    assert text.startswith("Theorem 1 holds (1 of 1 checks hold). Theorem 2 is inconclusive.")


def test_traces_equal_or_by_how_much_not(result_of: Make) -> None:
    predicted = [result_of("flash2", n) for n in (128, 256)]
    traced = [result_of("flash2", n, source="trace") for n in (128, 256)]
    assert "equal the closed form at all 2 traced points." in summary([*predicted, *traced])
    off = replace(traced[1], requested=Traffic(0, 0))
    assert "equal the closed form at 1 of 2 traced points; the largest difference is 100 %" in summary(
        [*predicted, traced[0], off]
    )


def test_the_worst_measured_deviation_is_named_with_its_place(result_of: Make) -> None:
    predicted = [result_of("flash1", n) for n in (1024, 2048)]
    measured = [result_of("flash1", n, source="measure") for n in (1024, 2048)]
    text = summary([*predicted, *measured])
    assert "within 0.1 % of the prediction at 1 of 2 measured points" in text
    assert "in flash1 at N = 1,024, d = 64, blocks 64×64" in text


@pytest.mark.parametrize(("factor", "above"), [(0.9, False), (1.1, True)])
def test_whether_a_measurement_is_above_the_prediction_is_said(result_of: Make, factor: float, above: bool) -> None:
    """Below it an L1 serves reads; above it a prediction is wrong."""
    predicted = [result_of("flash2", n) for n in (1024, 2048)]
    measured = [result_of("flash2", n, source="measure") for n in (1024, 2048)]
    requested = predicted[1].requested
    assert requested is not None
    moved = Traffic(round(factor * (requested.read_bytes or 0)), round(factor * (requested.write_bytes or 0)))
    text = summary([*predicted, measured[0], replace(measured[1], requested=moved)])
    assert "at 1 of 2 measured points; the largest deviation is" in text
    assert ("none is above it" in text) == (not above)


def test_ratios_at_the_largest_common_length(result_of: Make) -> None:
    measured = [
        result_of(name, n, source="measure", requested=Traffic(reads, 0), hbm=Traffic(hbm, 0), time_ns=time_ns)
        for name, n, reads, hbm, time_ns in (
            ("standard", 1024, 5, 5, 5.0),
            ("standard", 2048, 800, 600, 90.0),
            ("flash2", 2048, 100, 40, 30.0),
            ("flash2", 4096, 1, 1, 1.0),
        )
    ]
    text = summary(measured)
    assert (
        "At N = 2,048 (d = 64, full) standard attention takes 8× the requested bytes, 15× the HBM bytes and 3× the time" in text
    )
    assert "allocates 25.17 MB beyond inputs and output per head, FlashAttention-2 8.192 kB" in text


def test_hbm_traffic_over_the_floor_and_of_what_was_requested(result_of: Make) -> None:
    floor = Traffic(3, 1)
    measured = [
        result_of("flash2", n, source="measure", requested=Traffic(90, 10), hbm=Traffic(hbm, 0), compulsory=floor)
        for n, hbm in ((1024, 4), (2048, 25))
    ]
    text = summary(measured)
    assert "between 1× and 6.25× the compulsory bytes, most in flash2 at N = 2,048" in text
    assert "where 25 % of the requested bytes reached HBM" in text


def test_a_point_with_a_wrong_output_supports_no_sentence(result_of: Make) -> None:
    measured = [result_of(name, 1024, source="measure", check=None) for name in ("standard", "flash2")]
    text = summary([*measured, result_of("standard", 1024), result_of("flash2", 1024)])
    assert "No measurement" in text
    assert "standard attention takes" not in text
