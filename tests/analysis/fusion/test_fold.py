"""Combining in any bracketing equals the program.

It is exact on rationals, and equal to rounding in float64.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ioaware.analysis.fusion.expressions.arithmetic import ExactNumbers, FloatNumbers
from ioaware.analysis.fusion.lifting.fold import Fold, finish, run_plan
from ioaware.analysis.fusion.lifting.pass_plan import plan_as_written
from ioaware.fusion import maximum, reduce_max, reduce_mean, reduce_min, reduce_sum
from tests.support.fusion_programs import (
    FUSABLE,
    absmax_dot,
    answer,
    attention,
    largest_deviation,
    shifted_maximum,
    squared_deviations,
)
from tests.support.random_brackets import fold_in_random_brackets


def scaled_by_mean(x: Any, v: Any) -> Any:
    """The mean of some blocks may be 0, so nothing may be divided by it."""
    return reduce_sum(reduce_mean(x) * x * v)


def divided_by_mean(x: Any, v: Any) -> Any:
    """As scaled_by_mean, with a second map that needs the mean where it is 0."""
    mu = reduce_mean(x)
    return reduce_sum((x - mu) ** 2), reduce_sum(v * x / (mu + 10))


def weighted_mean(x: Any, v: Any) -> Any:
    """The weights of a block may sum to 0, though not those of all elements."""
    mu = reduce_sum(x * v) / reduce_sum(v)
    return reduce_sum(v * (x - mu) ** 2)


def fourth_moment(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_sum((x - mu) ** 4)


def sixth_moment(x: Any) -> Any:
    """A rank above those for which derivatives are tried: power sums."""
    mu = reduce_mean(x)
    return reduce_sum((x - mu) ** 6)


def signed_slope(x: Any, y: Any) -> Any:
    """The sign of the mean decides whether the maximum or the minimum of y matters."""
    mu = reduce_mean(x)
    return reduce_max(mu * y + x * 0), reduce_min(mu * y)


def larger_of_two(x: Any, y: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_max(maximum(x - mu, 2 * mu - y))


def count_of_a_count(x: Any, v: Any) -> Any:
    """The count combines the earlier sums, but divides by a sum that may be 0."""
    u = reduce_max(v)
    s = reduce_sum(x + u * v)
    return reduce_sum(x - s)


def colliding_names(x: Any, v: Any) -> Any:
    """A reduction has the name that a component of another reduction would get."""
    o_v = reduce_sum(x * v * v)
    o = reduce_sum((x - o_v) * v)
    return o + o_v


def zero_for_all_data(x: Any) -> Any:
    mu = reduce_mean(x)
    return reduce_sum((x - mu) ** 2 - (x - mu) * (x - mu) + 0 * x) + mu


EXACT = (
    count_of_a_count,
    colliding_names,
    zero_for_all_data,
    squared_deviations,
    absmax_dot,
    largest_deviation,
    shifted_maximum,
    scaled_by_mean,
    divided_by_mean,
    weighted_mean,
    fourth_moment,
    sixth_moment,
    signed_slope,
    larger_of_two,
)


@pytest.mark.parametrize("program", EXACT, ids=lambda program: program.__name__)
def test_every_bracketing_is_exact_on_rationals(program: Callable[..., Any]) -> None:
    fusion = answer(program)
    numbers, source = ExactNumbers(), random.Random(program.__name__)
    fold = Fold(fusion.plan, fusion.plan.passes[0], numbers)
    written = plan_as_written(fusion.program)
    compared = 0
    for _ in range(12):
        count = source.randrange(2, 9)
        elements = [
            {x: Fraction(source.randrange(-4, 5), source.choice((1, 2))) for x in fusion.program.inputs} for _ in range(count)
        ]
        expected = run_plan(written, elements, numbers)
        if any(value != value for value in expected):
            continue
        found = finish(fusion.plan, fold.results(fold_in_random_brackets(fold, elements, source)), numbers)
        assert found == expected
        compared += 1
    assert compared > 6


@pytest.mark.parametrize("program", [*FUSABLE, *EXACT], ids=lambda program: program.__name__)
def test_every_bracketing_is_the_program_in_float64(program: Callable[..., Any]) -> None:
    """The reference is the function itself, run by numpy."""
    fusion = answer(program)
    numbers, source = FloatNumbers(), random.Random(program.__name__)
    fold = Fold(fusion.plan, fusion.plan.passes[0], numbers)
    for _ in range(4):
        columns = [np.array([source.uniform(-3, 3) for _ in range(9)]) for _ in fusion.program.inputs]
        elements = [dict(zip(fusion.program.inputs, row, strict=True)) for row in zip(*columns, strict=True)]
        expected = program(*columns)
        found = finish(fusion.plan, fold.results(fold_in_random_brackets(fold, elements, source)), numbers)
        assert found == pytest.approx(expected if isinstance(expected, tuple) else (expected,), rel=1e-9, abs=1e-9)


def test_masked_elements_add_nothing_wherever_they_are() -> None:
    """Blocks of only -inf at the start, in the middle and at the end."""
    fusion = answer(attention)
    fold = Fold(fusion.plan, fusion.plan.passes[0], FloatNumbers())
    x, v = fusion.program.inputs
    seen = [{x: np.float64(a), v: np.float64(b)} for a, b in ((-200.0, 1.0), (-201.0, 2.0), (-199.5, -3.0))]
    masked = [{x: np.float64(-np.inf), v: np.float64(5)}] * 2
    blocks = [masked, seen[:1], masked, seen[1:], masked]
    state = fold.empty()
    for block in blocks:
        state = fold.merge(state, fold.of(block))
    expected = attention(*(np.array([float(element[name]) for element in seen]) for name in (x, v)))
    assert finish(fusion.plan, fold.results(state), FloatNumbers())[0] == pytest.approx(expected, rel=1e-14)


def test_nothing_but_masked_elements_is_zero() -> None:
    fusion = answer(attention)
    fold = Fold(fusion.plan, fusion.plan.passes[0], FloatNumbers())
    x, v = fusion.program.inputs
    masked = [{x: np.float64(-np.inf), v: np.float64(5)}]
    state = fold.merge(fold.of(masked), fold.merge(fold.empty(), fold.of(masked)))
    assert finish(fusion.plan, fold.results(state), FloatNumbers()) == (0.0,)
