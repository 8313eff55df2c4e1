"""Bound a map's rank, and the size of every state for its sum, at sample points.

The size is the count of numbers that every such state must have.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.elementwise import Rint, with_absolute_values
from ioaware.analysis.fusion.expressions.interval_arithmetic import UndecidedError, interval, proven_rank
from ioaware.analysis.fusion.lifting.lifted_reductions import Lifted
from ioaware.analysis.fusion.refutation.samples import NUMBERS

_sympy: Any = sympy


@dataclass(frozen=True, slots=True)
class Rank:
    """Bounds of a rank: `at_most` terms, and `at_least` proven.

    `at_most` is by the separation found, and `at_least` is proven by a nonsingular alternant [f(x_i; p_j)].

    `of_derivative` is the proven rank of [d f(x_i; p_j)]. If later elements can bring the parameters to the p_j, every
    continuous state has at least as many numbers for this sum and the parameters together.
    """

    at_most: int
    at_least: int
    of_derivative: int


def rank_of(lifted: Lifted, inputs: tuple[Any, ...]) -> Rank:
    """Return the proven bounds of the rank of a lifted sum's map."""
    body = with_absolute_values(lifted.reduction.body)
    size = lifted.rank
    slopes = [] if body.has(Rint) else [_sympy.diff(body, x) for x in inputs if x in body.free_symbols]
    return Rank(size, _proven([body], inputs, body, size), _proven(slopes, inputs, body, size) if slopes else 0)


def _proven(functions: list[Any], inputs: tuple[Any, ...], body: Any, size: int) -> int:
    """Return the proven rank of the matrix of the functions' values.

    Rows are by element and columns by parameters.
    """
    source = random.Random(1)  # noqa: S311 (sample points, the same every time)

    def point(symbol: Any) -> Any:
        low = 1 if symbol.is_positive else -9
        return interval(Fraction(source.randrange(low, 10), 4) + Fraction(source.randrange(1, 8), 64))

    others = sorted(body.free_symbols - set(inputs), key=str)
    columns = [{symbol: point(symbol) for symbol in others} for _ in range(size + 1)]
    try:
        rows = [
            [evaluate(function, {**element, **column}, NUMBERS) for column in columns]
            for element in ({x: point(x) for x in inputs} for _ in range(size + 1))
            for function in functions
        ]
    except UndecidedError:
        return 0
    return proven_rank(rows)
