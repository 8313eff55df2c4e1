"""Proven inequalities hold at every size and index, for random expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.ir.algebra.constructors import PATIENT, floor_div, greatest, least, mod
from ioaware.analysis.ir.algebra.counterexamples import has_counterexample
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, poly
from ioaware.analysis.ir.algebra.prover import nonnegative
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy

M, N = poly(Symbol("M", ONE)), poly(Symbol("N", ONE))
SIZES = [(1, 1), (3, 1), (1, 7), (8, 8), (9, 33), (40, 5), (17, 64)]


@st.composite
def expressions(draw: st.DrawFn, place: Poly, lane: Poly, group: int, wide: Poly, high: Poly) -> Poly:
    """Draw random combinations of the terms of a swizzled tile order, and of others."""
    height = least(high - group * floor_div(place, group * wide), poly(group))
    column = floor_div(mod(place, group * wide), height)
    row = group * floor_div(place, group * wide) + mod(place, height)
    pieces = [M, N, lane, wide, high, height, column, row, place, mod(lane + 8 * column, N), greatest(ZERO, M - 8 * row)]
    value = poly(draw(st.integers(-9, 9)))
    for _ in range(draw(st.integers(1, 4))):
        value = value + draw(st.sampled_from([-8, -7, -1, 1, 1, 8])) * draw(st.sampled_from(pieces))
    return value if draw(st.booleans()) else floor_div(value, draw(st.sampled_from([poly(4), N, height])))


@settings(max_examples=400, derandomize=True, deadline=None)
@given(data=st.data(), group=st.integers(1, 5), depth=st.sampled_from([5, PATIENT]))
def test_proven_expressions_are_never_negative(data: st.DataObject, group: int, depth: int) -> None:
    high, wide = floor_div(M + 7, poly(8)), floor_div(N + 7, poly(8))
    place, lane = Symbol("t", ZERO, high * wide - 1), Symbol("lane0", ZERO, poly(7))
    value = data.draw(expressions(poly(place), poly(lane), group, wide, high))
    for claim in (value, -value, -value - 1):
        if nonnegative(claim, depth):
            term = compile_expression(to_sympy(claim))
            for m, n in SIZES:
                tiles = evaluate(to_sympy(high * wide), {"M": m, "N": n})
                grid: Any = np.indices((tiles, 8))
                found = np.asarray(term({"M": m, "N": n, "t": grid[0], "lane0": grid[1]}))
                assert found.min() >= 0, (claim, m, n)


def test_columns_of_a_swizzled_tile_lie_in_the_tensor() -> None:
    """Where the tile size divides n, every column is below n.

    An address modulo n equals the address.
    """
    units = poly(Symbol("u", ONE))
    high = floor_div(M + 127, poly(128))
    place, lane = poly(Symbol("t", ZERO, high * units - 1)), poly(Symbol("lane0", ZERO, poly(127)))
    height = least(high - 8 * floor_div(place, 8 * units), poly(8))
    column = 128 * floor_div(mod(place, 8 * units), height) + lane
    assert nonnegative(128 * units - 1 - column, PATIENT)
    assert not nonnegative(128 * units - 2 - column, PATIENT)
    assert mod(column, 128 * units) == column


@settings(max_examples=200, derandomize=True, deadline=None)
@given(data=st.data(), group=st.integers(1, 5))
def test_true_inequalities_have_no_counterexample(data: st.DataObject, group: int) -> None:
    """True inequalities have no counterexample.

    Remainders are not negative, and a clip is at most its size.

    Their negations have one.
    """
    high, wide = floor_div(M + 7, poly(8)), floor_div(N + 7, poly(8))
    place, lane = Symbol("t", ZERO, high * wide - 1), Symbol("lane0", ZERO, poly(7))
    any_number = data.draw(expressions(poly(place), poly(lane), group, wide, high))
    size = poly(data.draw(st.integers(0, 9)))
    for always in (
        mod(any_number, N), N - 1 - mod(any_number, N), greatest(ZERO, any_number), size - least(size, any_number),
        any_number * any_number, high * wide - 1 - poly(place),
    ):  # fmt: skip
        assert not has_counterexample(always), always
        assert has_counterexample(-always - 1), always
