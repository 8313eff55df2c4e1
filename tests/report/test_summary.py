"""The sentences of the summary follow from the data, and missing data are named."""

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


def test_an_empty_summary_names_what_is_missing() -> None:
    text = summary([])
    assert "No theorem was checked" in text
    assert "No measurement" in text


def test_verdicts_with_their_checks(claim_of: Callable[..., Any]) -> None:
    text = summary([], [claim_of("theorem1"), claim_of("theorem2", "inconclusive", parts=[])])
    assert text.startswith("Theorem 1 holds (1 of 1 checks hold). Theorem 2 is inconclusive.")


def test_of_many_claims_those_that_hold_share_a_sentence(claim_of: Callable[..., Any]) -> None:
    names = ("theorem1", "theorem2", "proposition3", "capacity")
    text = summary([], [*map(claim_of, names), claim_of("softmax", "fails")])
    assert text.startswith("4 of 5 claims hold (4 checks): Theorem 1, Theorem 2, Proposition 3, capacity. softmax fails (")


def test_traces_are_equal_or_the_difference_is_given(result_of: Make) -> None:
    predicted = [result_of("flash2", n) for n in (128, 256)]
    traced = [result_of("flash2", n, source="trace") for n in (128, 256)]
    assert "equal the closed form at all 2 traced points." in summary([*predicted, *traced])
    off = replace(traced[1], requested=Traffic(0, 0))
    assert "equal the closed form at 1 of 2 traced points; the largest difference is 100 %" in summary(
        [*predicted, traced[0], off]
    )


def test_points_where_an_l1_may_serve_reads_are_compared_separately(result_of: Make) -> None:
    """flash1 reads rows of O again, which its L1 may hold. flash2 reads nothing twice."""
    results = [result_of(name, 1024, source=source) for name in ("flash1", "flash2") for source in ("predict", "measure")]
    text = summary(results)
    assert "At 1 of 2 measured points no read can hit in an L1 and no register is spilled." in text
    assert "At the other an L1 may serve reads: requested bytes are at most" in text
    assert "in flash1 at N = 1,024, d = 64, blocks 64×64" in text


@pytest.mark.parametrize(
    ("name", "factor", "sentence"),
    [
        ("flash2", 0.9, "within 10 % of the closed form, worst in flash2 at N = 1,024"),
        ("flash2", 1.1, "within 10 % of the closed form, worst in flash2 at N = 1,024"),
        ("flash1", 0.9, "at most 10 % below the closed form, in flash1 at N = 1,024, d = 64, blocks 64×64, and never above it"),
        (
            "flash1",
            1.1,
            "at most 0 % below the closed form, in flash1 at N = 512, d = 64, blocks 64×64, and above it at 1 point",
        ),
    ],
)
def test_the_largest_difference_and_its_side_are_named(result_of: Make, name: str, factor: float, sentence: str) -> None:
    predicted = [result_of(name, n) for n in (512, 1024)]
    first, second = (one.requested for one in predicted)
    assert first is not None
    assert second is not None
    moved = Traffic(round(factor * (second.read_bytes or 0)), round(factor * (second.write_bytes or 0)))
    measured = [result_of(name, n, source="measure", requested=traffic) for n, traffic in ((512, first), (1024, moved))]
    assert sentence in summary([*predicted, *measured])


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


def test_hbm_traffic_over_compulsory_and_requested_bytes(result_of: Make) -> None:
    compulsory = Traffic(3, 1)
    measured = [
        result_of("flash2", n, source="measure", requested=Traffic(90, 10), hbm=Traffic(hbm, 0), compulsory=compulsory)
        for n, hbm in ((1024, 4), (2048, 25))
    ]
    text = summary(measured)
    assert "between 1× and 6.25× the compulsory bytes, most in flash2 at N = 2,048" in text
    assert "where 25 % of the requested bytes reached HBM" in text


def test_a_point_with_a_wrong_output_is_not_in_the_summary(result_of: Make) -> None:
    measured = [result_of(name, 1024, source="measure", check=None) for name in ("standard", "flash2")]
    text = summary([*measured, result_of("standard", 1024), result_of("flash2", 1024)])
    assert "No measurement" in text
    assert "standard attention takes" not in text
