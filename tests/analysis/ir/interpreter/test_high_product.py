"""High halves of products, and divisions by a constant made of them.

Kernels make such divisions.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.ir.algebra.constructors import floor_div
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, poly
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy
from ioaware.analysis.ir.interpreter.arith import high_product

N, D = poly(Symbol("n", ZERO)), poly(Symbol("d", ONE))


def inverse(d: Poly) -> Poly:
    return floor_div(poly(2**30 - 1), d) + 1


@pytest.mark.parametrize("d", [D, poly(1), poly(7), poly(132), poly(4096)], ids=str)
def test_a_number_times_an_inverse_is_a_division(d: Poly) -> None:
    assert high_product(4 * N, inverse(d)) == floor_div(N, d)


@settings(derandomize=True, deadline=None)
@given(a=st.integers(0, 2**32 - 1), b=st.integers(0, 2**32 - 1))
def test_any_other_product_is_its_high_half(a: int, b: int) -> None:
    found = high_product(N, D)
    assert found is not None
    assert evaluate(to_sympy(found), {"n": a, "d": b}) == (a * b) >> 32


def test_possibly_negative_factors_have_no_rule() -> None:
    assert high_product(N - 5, D) is None
