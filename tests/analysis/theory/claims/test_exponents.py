"""Fitted exponents: exact data hold, other exponents fail.

Impossible fits never hold.
"""

from __future__ import annotations

import math

import pytest

from ioaware.analysis.theory.claims.claim import Exponent
from ioaware.analysis.theory.claims.exponents import Sample, fit_exponents, judge_interval

SIZES = (16, 32, 64, 128)


def one(samples: list[Sample], expected: float = 2, **kwargs: bool) -> Exponent:
    (row,) = fit_exponents("bytes", {"N": expected}, samples, **kwargs)
    return row


def test_an_exact_power_holds_and_another_fails():
    samples: list[Sample] = [({"N": n}, 3 * n * n) for n in SIZES]
    assert one(samples).verdict == "holds"
    assert one(samples, expected=1.9).verdict == "fails"
    assert one(samples, expected=1.9, judged=False).verdict == "not judged"


def test_powers_of_several_variables_are_separated():
    samples: list[Sample] = [({"N": n, "d": d, "M": m}, n**2 * d**2 / m) for n in SIZES for d in (16, 32) for m in (512, 1024)]
    rows = list(fit_exponents("bytes", {"N": 2, "d": 2, "M": -1}, samples))
    assert [(row.variable, row.verdict, row.points) for row in rows] == [
        ("N", "holds", 16),
        ("d", "holds", 16),
        ("M", "holds", 16),
    ]


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ([], "inconclusive"),
        ([({"N": 16}, 256), ({"N": 32}, 1024)], "inconclusive"),
        ([({"N": 16}, 256)] * 5, "inconclusive"),
        ([({"N": n}, None if n == 64 else n * n) for n in SIZES], "inconclusive"),
        ([({"N": n}, math.nan if n == 64 else n * n) for n in SIZES], "fails"),
        ([({"N": n}, 0 if n == 64 else n * n) for n in SIZES], "fails"),
    ],
)
def test_impossible_fits_never_hold(samples: list[Sample], verdict: str):
    row = one(samples)
    assert row.verdict == verdict
    assert row.exponent is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.99, 2.01, "holds"),
        (2.004, 2.01, "holds"),
        (2.006, 2.01, "fails"),
        (1.5, 2.5, "inconclusive"),
        (2.5, 5.0, "fails"),
        (math.nan, math.nan, "fails"),
    ],
)
def test_an_interval_must_contain_the_power_and_be_narrow(low: float, high: float, verdict: str):
    assert judge_interval(low, high, 2) == verdict
