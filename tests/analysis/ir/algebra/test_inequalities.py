"""A simplified condition has the truth value of its original inequality."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero, negation
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy
from ioaware.analysis.ir.sums.summation import sum_over

N = poly(Symbol("N", ONE))
wide = st.integers(-500, 500)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(slope=st.sampled_from([-64, -6, -4, -2, 2, 3, 4, 16]), offset=wide, value=st.integers(1, 300))
def test_at_least_zero(slope: int, offset: int, value: int) -> None:
    test = at_least_zero(slope * N + offset)
    assert evaluate(to_sympy(test), {"N": value}) == (slope * value + offset >= 0)
    assert evaluate(to_sympy(negation(test)), {"N": value}) == (slope * value + offset < 0)


@pytest.mark.parametrize(("block", "size"), [(2, 200), (64, 1000), (128, 128), (4, 399)])
def test_programs_before_an_early_return(block: int, size: int) -> None:
    """`if pid * BLOCK >= n: return` with a constant n, as kernels without masks begin."""
    index = Symbol("pid", ZERO, poly(999))
    running: Poly = negation(at_least_zero(block * poly(index) - size))
    assert sum_over(running, index, ZERO, poly(1000)) == poly(-(-size // block))
