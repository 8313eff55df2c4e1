"""Values of expressions at arrays of their symbols."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Choice, Extreme, Floor, Poly, Sum, Symbol, Test, poly
from ioaware.analysis.ir.sectors import lanes

P, ROW, K = Symbol("p"), Symbol("i"), Symbol("k")
BODY: Poly = poly(P) * poly(K) + 3 * poly(K) * poly(K)


@pytest.mark.parametrize("terms_at_once", [lanes.MAX_TERMS, 50])
def test_a_sum_is_that_of_its_terms(monkeypatch: pytest.MonkeyPatch, terms_at_once: int) -> None:
    """Rows that share terms, ends that differ, and empty ranges."""
    monkeypatch.setattr(lanes, "MAX_TERMS", terms_at_once)
    generator = np.random.default_rng(0)
    programs, indices = generator.integers(0, 6, (40, 1)), generator.integers(-3, 30, (1, 17))
    low = poly(ROW) - 4
    found = lanes.numeric(poly(Sum(BODY, K, low, 2 * poly(ROW))), {P.key: programs, ROW.key: indices})
    rows, columns = programs[:, 0].tolist(), indices[0].tolist()
    assert found.tolist() == [[sum(p * k + 3 * k * k for k in range(i - 4, 2 * i)) for i in columns] for p in rows]


@pytest.mark.parametrize(("low", "high", "expected"), [(0, 5, 10), (5, 0, 0), (3, 4, 3)])
def test_a_sum_of_no_other_symbol(low: int, high: int, expected: int) -> None:
    """One number, of no rows."""
    assert int(lanes.numeric(poly(Sum(poly(K), K, poly(low), poly(high))), {})) == expected
    assert int(lanes.numeric(poly(Sum(poly(K), K, ZERO, ZERO)), {})) == 0


def test_an_expression_is_that_of_its_numbers() -> None:
    """Rows and columns of one array, and parts that occur again."""
    generator = np.random.default_rng(1)
    programs, indices = generator.integers(-9, 9, (20, 1)), generator.integers(-9, 9, (1, 30))
    ninth = poly(Floor(poly(P) + 5 * poly(ROW), poly(9)))
    met = poly(Test(ninth - poly(P), equal=False))
    least = poly(Extreme(least=True, args=(ninth, poly(ROW), poly(3))))
    value = poly(Choice(met, ninth * ninth, least)) - 2 * met * least + ninth + ONE
    found = lanes.numeric(value, {P.key: programs, ROW.key: indices})

    def expected(p: int, i: int) -> int:
        floor = (p + 5 * i) // 9
        truth, smallest = floor >= p, min(floor, i, 3)
        return (floor * floor if truth else smallest) - 2 * truth * smallest + floor + 1

    assert found.tolist() == [[expected(p, i) for i in indices[0].tolist()] for p in programs[:, 0].tolist()]


def test_narrow_numbers_do_not_wrap() -> None:
    narrow = np.asarray([100, -128], dtype=np.int8)
    assert lanes.numeric(poly(P) * poly(P) + poly(P), {P.key: narrow}).tolist() == [10100, 16256]
