"""Values of sums at arrays of their symbols."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.analysis.ir.algebra.poly import ZERO, Poly, Sum, Symbol, poly
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
