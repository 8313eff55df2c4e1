"""Closed forms of sums equal term-by-term sums for random bodies and bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero, choice, is_zero
from ioaware.analysis.ir.algebra.sympy_bridge import from_sympy, to_sympy
from ioaware.analysis.ir.sums.summation import sum_over

N = poly(Symbol("N", ONE))
small = st.integers(-9, 9)


@st.composite
def affine(draw: st.DrawFn, index: Poly) -> Poly:
    """Draw a index + b N + c."""
    return draw(st.sampled_from([-16, -5, -1, 0, 1, 3, 8])) * index + draw(st.sampled_from([-1, 0, 1])) * N + draw(small)


@st.composite
def bodies(draw: st.DrawFn, index: Poly) -> Poly:
    def part() -> Poly:
        return draw(affine(index))

    shapes = {
        "clip": lambda: at_least_zero(part()) * at_least_zero(part()),
        "tile": lambda: greatest(ZERO, least(poly(8), part())),
        "line": lambda: part() * part(),
        "point": lambda: is_zero(part()) * part(),
        "either": lambda: choice(at_least_zero(part()), part(), part()),
        "digits": lambda: mod(index, poly(4)) * floor_div(index, poly(4)) + floor_div(part(), poly(3)),
    }
    chosen = [shapes[draw(st.sampled_from(sorted(shapes)))]() for _ in range(draw(st.integers(1, 2)))]
    return chosen[0] if len(chosen) == 1 else chosen[0] * chosen[1] + chosen[0]


@settings(max_examples=150, derandomize=True, deadline=None)
@given(data=st.data(), bounds=st.sampled_from(["N", "tiles", "shifted", "constant"]))
def test_a_closed_sum_is_the_sum(data: st.DataObject, bounds: str) -> None:
    low, high = {
        "N": (ZERO, N),
        "tiles": (ZERO, floor_div(N + 7, poly(8))),
        "shifted": (poly(2), N - 3),
        "constant": (ZERO, poly(12)),
    }[bounds]
    index = Symbol("i", low, high - 1)
    body = data.draw(bodies(poly(index)))
    closed, term = to_sympy(sum_over(body, index, low, high)), to_sympy(body)
    for n in (1, 2, 5, 8, 17, 40):
        first, last = (evaluate(to_sympy(bound), {"N": n}) for bound in (low, high))
        assert evaluate(closed, {"N": n}) == sum(evaluate(term, {"N": n, "i": i}) for i in range(first, last)), (n, closed)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(data=st.data())
def test_sympy_and_back_keeps_the_value(data: st.DataObject) -> None:
    index = Symbol("i", ZERO)
    body = data.draw(bodies(poly(index)))
    again = to_sympy(from_sympy(to_sympy(body)))
    for values in ({"N": 3, "i": 0}, {"N": 7, "i": 5}, {"N": 20, "i": 11}):
        assert evaluate(again, values) == evaluate(to_sympy(body), values)
