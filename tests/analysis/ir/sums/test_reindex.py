"""Changes of summation index keep the sum.

They are swizzles, flattened grids, shares of rows and clips.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.formulas.printing import show
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Sum, Symbol, poly
from ioaware.analysis.ir.algebra.simplify import simplify
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.analysis.ir.sums.reindex import rotate
from ioaware.analysis.ir.sums.summation import has_sum, sum_over

M, N = poly(Symbol("M", ONE)), poly(Symbol("N", ONE))
FIVE = poly(5)
SIZES = [(1, 1), (1, 40), (7, 3), (16, 16), (17, 33), (50, 8), (64, 65)]


def tiles(length: Poly, size: int) -> Poly:
    return floor_div(length + size - 1, poly(size))


def clip(length: Poly, size: int, tile: Poly) -> Poly:
    """Return the part of a tile that lies inside the length."""
    return greatest(ZERO, least(poly(size), length - size * tile))


def check(closed: Poly, body: Poly, index: Symbol, low: Poly, high: Poly) -> None:
    found, term = to_sympy(closed), compile_expression(to_sympy(body))
    for m, n in SIZES:
        values = {"M": m, "N": n}
        first, last = evaluate(to_sympy(low), values), evaluate(to_sympy(high), values)
        every: Any = np.arange(first, last, dtype=np.int64)
        expected = int(np.sum(term({**values, index.name: every}))) if every.size else 0
        assert evaluate(found, values) == expected, (values, show(found))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    group=st.integers(1, 9),
    blocks=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    whole=st.booleans(),
    power=st.sampled_from([(1, 0), (0, 1), (1, 1)]),
)
def test_the_order_of_tiles_does_not_change_their_sum(
    group: int, blocks: tuple[int, int], whole: bool, power: tuple[int, int]
) -> None:
    """Triton's grouped order, with the remainder taken of the tile or of its place.

    The place is that in the group.
    """
    rows, columns = tiles(M, blocks[0]), tiles(N, blocks[1])
    tile = Symbol("t", ZERO, rows * columns - 1)
    place, in_group = poly(tile), group * columns
    first = group * floor_div(place, in_group)
    height = least(rows - first, poly(group))
    row = first + mod(place if whole else mod(place, in_group), height)
    column = floor_div(mod(place, in_group), height)
    body = [ONE, clip(M, blocks[0], row)][power[0]] * [ONE, clip(N, blocks[1], column)][power[1]]
    closed = sum_over(body, tile, ZERO, rows * columns)
    assert not has_sum(closed), closed
    check(closed, body, tile, ZERO, rows * columns)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    period=st.integers(1, 9), times=st.integers(0, 4), start=st.integers(-9, 30), low=st.integers(-5, 9), size=st.integers(1, 9)
)
def test_a_whole_period_may_start_anywhere(period: int, times: int, start: int, low: int, size: int) -> None:
    high = poly(low + period * times)
    index = Symbol("i", poly(low), high - 1)
    body = clip(N, size, mod(poly(index) + start + M, poly(period)))
    check(sum_over(body, index, poly(low), high), body, index, poly(low), high)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(programs=st.integers(1, 140), share=st.integers(1, 9), rest=st.integers(0, 3), fixed=st.booleans())
def test_row_shares_of_all_programs_sum_to_all_rows(programs: int, share: int, rest: int, fixed: bool) -> None:
    """`rows_per_program = cdiv(rows, programs)`, or a fixed share.

    The fixed share leaves some rows out.
    """
    each = poly(share) if fixed else tiles(M, programs)
    index = Symbol("pid", ZERO, poly(programs - 1))
    start = each * poly(index)
    body = greatest(ZERO, least(start + each, M + rest) - start)
    closed = sum_over(body, index, ZERO, poly(programs))
    assert not has_sum(closed), closed
    check(closed, body, index, ZERO, poly(programs))
    if not fixed and not rest:
        assert closed == M


GRID = [Symbol(f"pid_{axis}", ZERO) for axis in range(3)]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(data=st.data(), order=st.permutations([0, 1, 2]))
def test_axes_used_as_one_index_are_flattened(data: st.DataObject, order: list[int]) -> None:
    """Flattened and regrouped grids. The expected sum is taken program by program."""
    sizes = [data.draw(st.sampled_from([tiles(M, 16), tiles(N, 8), poly(4), poly(1)])) for _ in range(3)]
    axes = [Symbol(f"pid_{axis}", ZERO, size - 1) for axis, size in enumerate(sizes)]
    inner, outer, other = order
    flat = poly(axes[inner]) + sizes[inner] * poly(axes[outer])
    group = data.draw(st.integers(1, 4))
    height = least(poly(group), sizes[outer] - group * floor_div(flat, group * sizes[inner]))
    bodies = {
        "flat": clip(M, 5, flat),
        "digit": clip(N, 3, mod(flat, poly(group))) * poly(axes[other]),
        "grouped": clip(M, 4, floor_div(mod(flat, group * sizes[inner]), height)),
        "both": clip(M, 5, flat) + clip(N, 7, poly(axes[inner])),
    }
    body = bodies[data.draw(st.sampled_from(sorted(bodies)))]
    programs = Programs((axes[0], axes[1], axes[2]), (sizes[0], sizes[1], sizes[2]))
    closed, term = to_sympy(programs.sum(body)), compile_expression(to_sympy(body))
    for m, n in SIZES:
        values = {"M": m, "N": n}
        grid = np.indices([evaluate(to_sympy(size), values) for size in sizes])
        expected = np.sum(term({**values, **{f"pid_{axis}": grid[axis] for axis in range(3)}}))
        assert evaluate(closed, values) == int(expected), (values, show(closed))


@st.composite
def parts(draw: st.DrawFn) -> Poly:
    """Draw a M + b N + c, or minima and maxima of such terms, nested at most twice."""
    plain = draw(st.integers(-3, 3)) * M + draw(st.integers(-3, 3)) * N + draw(st.integers(-70, 70))
    for _ in range(draw(st.integers(0, 2))):
        other = draw(st.integers(-3, 3)) * M + draw(st.integers(-70, 70))
        make = draw(st.sampled_from([least, greatest]))
        plain = make(plain, other, *([ZERO] if draw(st.booleans()) else [])) * draw(st.integers(-2, 3)) + other
    return plain


@settings(max_examples=120, derandomize=True, deadline=None)
@given(a=parts(), b=parts(), c=parts(), times=st.integers(-3, 3))
def test_simplification_keeps_the_value(a: Poly, b: Poly, c: Poly, times: int) -> None:
    for value, build in (
        (lambda x, y, z: min(x, y) * times + z, lambda x, y, z: least(x, y) * times + z),
        (lambda x, y, z: max(0, min(x, y - z)) + z * times, lambda x, y, z: greatest(ZERO, least(x, y - z)) + z * times),
        (
            lambda x, y, z: min(max(0, x) * 3, max(y, 5), z),
            lambda x, y, z: least(greatest(ZERO, x) * 3, greatest(y, poly(5)), z),
        ),
    ):
        for m, n in SIZES:
            given_values = {"M": m, "N": n}
            numbers = [evaluate(to_sympy(part), given_values) for part in (a, b, c)]
            found = evaluate(to_sympy(simplify(build(a, b, c))), given_values)
            assert found == value(*numbers), (given_values, simplify(build(a, b, c)))


@pytest.mark.parametrize("after", [0, 1])
@settings(max_examples=40, derandomize=True, deadline=None)
@given(sizes=st.tuples(st.integers(0, 70), st.integers(0, 70)), slope=st.integers(-3, 3), constant=st.integers(-70, 70))
def test_adjacent_clips_are_merged(after: int, sizes: tuple[int, int], slope: int, constant: int) -> None:
    """max(0, min(a, x)) + max(0, min(b, x - a)).

    With a gap between them, the two clips stay apart.
    """
    rest = M + slope * N + constant
    both = greatest(ZERO, least(poly(sizes[0]), rest)) + greatest(ZERO, least(poly(sizes[1]), rest - sizes[0] - after))
    for m, n in SIZES:
        x = m + slope * n + constant
        expected = max(0, min(sizes[0], x)) + max(0, min(sizes[1], x - sizes[0] - after))
        assert evaluate(to_sympy(simplify(both)), {"M": m, "N": n}) == expected


def test_the_index_of_a_sum_inside_does_not_leave_it() -> None:
    program, lane = Symbol("program", ZERO), Symbol("lane", ZERO)
    inner = Sum(mod(poly(program) + poly(lane), N), lane, ZERO, poly(16))
    body = poly(inner) + mod(poly(program), N)
    turned = rotate(body, program, ZERO, N)
    assert turned is None or lane.key not in turned[0].free
