"""Verdicts fail closed: wrong numbers fail, missing ones and NaN never hold."""

from __future__ import annotations

import json
import math
from typing import Literal

import pytest

from ioaware.analysis.theory.claims.claim import (
    Comparison,
    Exponent,
    Part,
    Verdict,
    combine,
    conclude,
    judge_bounds,
    judge_comparisons,
)


def row(expected: float | None, observed: float | None, where: str = "N=1") -> Comparison:
    return Comparison("a", where, expected, observed)


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [
        ([], "inconclusive"),
        (["holds"], "holds"),
        (["holds", "inconclusive"], "inconclusive"),
        (["inconclusive", "fails", "holds"], "fails"),
        (["holds", "holds"], "holds"),
    ],
)
def test_parts_combine(verdicts: list[Verdict], together: Verdict):
    assert combine(verdicts) == together


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([], "inconclusive"),
        ([row(5, 5), row(7, 7)], "holds"),
        ([row(5, 5), row(7, 8)], "fails"),
        ([row(5, 5), row(7, None)], "inconclusive"),
        ([row(5, 6), row(7, None)], "fails"),
        ([row(None, 5)], "inconclusive"),
        ([row(5, math.nan)], "fails"),
        ([row(math.nan, 5)], "fails"),
        ([row(5, math.inf)], "fails"),
        ([row(0, 0)], "holds"),
        ([row(0, 1)], "fails"),
    ],
)
def test_equality(rows: list[Comparison], verdict: Verdict):
    assert judge_comparisons("a", "equal", rows).verdict == verdict


def test_too_few_points_decide_nothing():
    assert judge_comparisons("a", "equal", [row(5, 5)], at_least=2).verdict == "inconclusive"
    assert judge_bounds("a", "bounded", [("N=1", 1.0)], low=1, at_least=2).verdict == "inconclusive"


def test_a_tolerance_is_relative_and_reached_from_both_sides():
    inside, outside = [row(1000, 1001), row(1000, 999)], [row(1000, 998)]
    assert judge_comparisons("b", "near", inside, tolerance=1e-3).verdict == "holds"
    assert judge_comparisons("b", "near", outside, tolerance=1e-3).verdict == "fails"


def test_the_point_of_largest_deviation_is_named():
    part = judge_comparisons("a", "equal", [row(10, 11, "N=8"), row(10, 20, "N=16"), row(10, 10, "N=32")], unit="bytes")
    assert part.observed == "2 differ; N=16: 20 against 10 bytes"


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([], "inconclusive"),
        ([("N=1", 1.0), ("N=2", 2.0)], "holds"),
        ([("N=1", 0.999)], "fails"),
        ([("N=1", 2.001)], "fails"),
        ([("N=1", math.nan)], "fails"),
    ],
)
def test_bounds(ratios: list[tuple[str, float]], verdict: Verdict):
    assert judge_bounds("c", "bounded", ratios, low=1, high=2).verdict == verdict


def exponent(verdict: Verdict | Literal["not judged"]) -> Exponent:
    return Exponent("bytes", "N", math.nan, None, None, 2, 0, verdict)


def test_the_verdict_is_that_of_parts_and_judged_exponents():
    good = Part("a", "says", "1", "1", 1, "holds")
    assert conclude("x", "s", "p", parts=[good]).verdict == "holds"
    assert conclude("x", "s", "p", parts=[]).verdict == "inconclusive"
    assert conclude("x", "s", "p", parts=[good], exponents=[exponent("not judged")]).verdict == "holds"
    assert conclude("x", "s", "p", parts=[good], exponents=[exponent("fails")]).verdict == "fails"


def test_a_claim_is_strict_json_even_with_numbers_that_are_none():
    claim = conclude("x", "s", "p", parts=[], exponents=[exponent("fails")], points=[row(1, math.nan), row(1, None)])
    read = json.loads(json.dumps(claim.to_dict(), allow_nan=False))
    assert list(read) == ["claim", "statement", "source", "verdict", "evidence"]
    assert read["evidence"]["points"] == [
        {"part": "a", "where": "N=1", "expected": 1, "observed": "nan", "relation": "equal"},
        {"part": "a", "where": "N=1", "expected": 1, "observed": None, "relation": "equal"},
    ]


def test_reads_and_writes_of_one_point_count_as_one_point() -> None:
    comparisons = [Comparison("a", f"N={n} {way}", 1, 1) for n in (1, 2, 3) for way in ("reads", "writes")]
    assert judge_comparisons("a", "says", comparisons).expected == "equal at 3 points"
    assert judge_comparisons("a", "says", comparisons[:2]).expected == "equal at 1 point"


def test_bounds_are_one_number_where_their_ends_are_the_same() -> None:
    one = judge_bounds("a", "says", [("N=1", 1.0)], low=1, high=1)
    assert (one.expected, one.observed) == ("equal to 1", "1")
    two = judge_bounds("a", "says", [("N=1", 1.0), ("N=2", 1.5)], low=1, high=2)
    assert (two.expected, two.observed) == ("at least 1 and at most 2", "1 to 1.5")
