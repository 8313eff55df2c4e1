"""Leading terms of exact counts."""

from __future__ import annotations

import pytest
import sympy

from ioaware.analysis.growth import leading_term
from ioaware.analysis.integers import ceil_div, floor_div, index, largest, positive_symbols, series, smallest

N, d, b = positive_symbols("N d b")
i = index("i")


@pytest.mark.parametrize(
    ("count", "leading"),
    [
        (4 * N * ceil_div(N, 64) + 128 * N, N**2 / 16),
        (N * d + N**2 + b * N * d + 7, b * N * d),
        (N**2 + N * d + N, N**2 + N * d),
        (series(64 * (i + 1), i, ceil_div(N, 64)), N**2 / 128),
        (floor_div(N, 2) * 4, 2 * N),
        (sympy.Integer(12), sympy.Integer(12)),
    ],
)
def test_what_is_left_when_everything_grows(count: sympy.Expr, leading: sympy.Expr) -> None:
    assert leading_term(count) == leading


@pytest.mark.parametrize("count", [N * smallest(N, 64), largest(N - d, 0), N / d + N, sympy.Mod(N, 64) + N])
def test_no_leading_term_where_it_depends_on_which_side_grows(count: sympy.Expr) -> None:
    assert leading_term(count) is None
