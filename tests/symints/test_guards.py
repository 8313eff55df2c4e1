# pyright: basic
"""Guards of host code: evaluation, printing, removal of redundant ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
import torch
import triton
from torch.utils._sympy.functions import CeilDiv, FloorDiv, Max, Mod

from ioaware.symints.guard_evaluation import UnknownFunctionError, compute
from ioaware.symints.guards import Condition, as_remainder, param_facts, without_redundant
from ioaware.symints.powers_of_two import recognise_powers_of_two
from ioaware.symints.symbols import Symbols
from ioaware.symints.symint_methods import bit_length

TORCH: Any = torch


def expression(function: Callable[..., Any], **values: int) -> Any:
    """Return torch's expression of a function of symbolic integers."""
    made = Symbols(values)
    outcome = function(**made.ints)
    return recognise_powers_of_two(outcome.node.expr.xreplace(made._named))  # pyright: ignore[reportPrivateUsage]


FUNCTIONS: list[Callable[..., Any]] = [
    lambda n, m: n // m + n % m,
    lambda n, m: -(-n // m) * m - n,
    lambda n, m: (n + 5) >> 2,
    lambda n, m: n << 3,
    lambda n, m: (n - 1) & 7,
    lambda n, m: n | m,
    lambda n, m: n ^ m,
    lambda n, m: torch.sym_max(n, m) - torch.sym_min(n, m),
    lambda n, m: math.ceil(n / m),
    lambda n, m: math.floor(n / m),
    lambda n, m: round(n / 3),
    lambda n, m: triton.next_power_of_2(n) + m,
    lambda n, m: n**2 * m,
    lambda n, m: (n * m) % 7 == 0,
    lambda n, m: n < m,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_conditions_evaluate_like_python_at_arrays(function: Callable[..., Any]) -> None:
    draw = random.Random(0)
    expr = expression(function, n=100, m=7)
    points = {name: np.array([draw.randint(1, 5000) for _ in range(50)]) for name in ("n", "m")}
    found = compute(expr, points)
    for at in range(50):
        one = {name: int(values[at]) for name, values in points.items()}
        expected = abs(one["n"] - one["m"]) if function is FUNCTIONS[7] else function(**one)
        assert compute(expr, one) == found[at] == expected


def test_integers_do_not_overflow() -> None:
    expr = expression(lambda n, m: n * n * m * m, n=3, m=4)
    assert compute(expr, {"n": np.array([2**40]), "m": np.array([2**41])})[0] == 2**162


def test_function_without_rule_raises() -> None:
    with pytest.raises(UnknownFunctionError):
        compute(sympy.Function("mystery")(sympy.Symbol("n")), {"n": 3})


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda n, m: triton.next_power_of_2(n) == 128, "next_power_of_2(n) == 128"),
        (lambda n, m: (1 << bit_length(n - 1)) == 128, "next_power_of_2(n) == 128"),
        (lambda n, m: triton.next_power_of_2(n * m) < 2048, "next_power_of_2(m*n) < 2048"),
        (lambda n, m: n % m != 0, "n % m != 0"),
        (lambda n, m: n * 2 % 16 == 0, "n % 8 == 0"),
        (lambda n, m: triton.cdiv(n, 132) == 1, "ceil(n/132) == 1"),
        (lambda n, m: (n & 1) == 0, "bitwise_and(n, 1) == 0"),
        (
            lambda n, m: 2 ** (bit_length((triton.next_power_of_2(n) + 131) // triton.next_power_of_2(n)) - 1) < 4,
            "2**(bit_length(floor((next_power_of_2(n) + 131)/next_power_of_2(n))) - 1) < 4",
        ),
        (lambda n, m: 2 ** math.ceil(TORCH._sym_log2(n)) == 128, "2**ceil(log2(n)) == 128"),
        (lambda n, m: TORCH._sym_sqrt(n) / m > 1, "sqrt(n)/m > 1.0"),
        (lambda n, m: round(n / 3, 1) * 1.5 < 60, "1.5*round(n/3, 1) < 60.0"),
        (lambda n, m: sum(TORCH._sym_sqrt(n + k) for k in range(30)) > 1, "a condition on n"),
    ],
)
def test_shown_as_written(function: Callable[..., Any], shown: str) -> None:
    assert str(Condition(expression(function, n=100, m=7), "")) == shown


def test_a_size_that_must_be_a_power_of_two() -> None:
    """Both sides of the condition have a symbol; it gives no interval."""
    expr = expression(lambda n: triton.next_power_of_2(n) == n, n=64)
    (said,) = without_redundant([Condition(expr, "")])
    assert "next_power_of_2(n)" in str(said)
    assert not param_facts([said]).ranges


def test_conditions_implied_by_a_block_are_dropped() -> None:
    asked: list[Callable[..., Any]] = [
        lambda n: triton.next_power_of_2(n) <= 65536,
        lambda n: triton.next_power_of_2(n) == 128,
        lambda n: n <= triton.next_power_of_2(n),
        lambda n: n > 100,
        lambda n: n % 8 == 0,
        lambda n: n >= 8,
    ]
    said = without_redundant(Condition(expression(function, n=120), "") for function in asked)
    assert [str(condition) for condition in said] == ["next_power_of_2(n) == 128", "n > 100", "n % 8 == 0"]
    facts = param_facts(said)
    assert {str(symbol): ends for symbol, ends in facts.ranges.items()} == {"n": (101, 128)}
    assert {str(symbol): factor for symbol, factor in facts.multiples.items()} == {"n": 8}


def test_wider_product_bounds_are_dropped() -> None:
    n, m, free = sympy.symbols("n m free", integer=True, positive=True)
    narrow = sympy.Le(n * CeilDiv(m, 128), 528)
    wide = [sympy.Lt(n**2 * CeilDiv(m, 128), 2**30), sympy.Lt(CeilDiv(m, 256), 2**30), sympy.Le(n, 65535), sympy.Lt(m, 67585)]
    kept = [sympy.Lt(n**4, 2**30), sympy.Le(free, 65535), sympy.Lt(m, 67584), sympy.Ge(n, 3)]
    conditions = [Condition(holds, "branch") for holds in (wide[0], narrow, *kept, *wide[1:])]
    assert [condition.holds for condition in without_redundant(conditions)] == [narrow, *kept]


def test_equivalent_conditions_are_merged() -> None:
    n, m = sympy.symbols("n m", integer=True, positive=True)
    conditions = [Condition(sympy.Le(CeilDiv(n, 8) * m, 64), "branch"), Condition(sympy.Le(m, 64), "branch")]
    assert without_redundant(conditions) == (conditions[0],)


def test_a_value_that_others_exclude_is_not_excluded_again() -> None:
    n, m = sympy.symbols("n m", integer=True, positive=True)
    not_one = Condition(sympy.Ne(n, 1), "")
    for other in (expression(lambda n: triton.next_power_of_2(n) == 1024, n=900), sympy.Gt(n, 32), sympy.Eq(Mod(n, 4), 0)):
        assert [condition.holds for condition in without_redundant([not_one, Condition(other, "")])] == [other]
    for other in (sympy.Gt(m, 32), sympy.Lt(n, 32), sympy.Ne(n, 2), sympy.Gt(n + m, 32)):
        assert not_one in without_redundant([not_one, Condition(other, "")])


@pytest.mark.parametrize("least", [False, True])
def test_a_size_of_whole_heads_is_a_remainder(least: bool) -> None:
    """torch bounds a product of strides by 1."""
    n = sympy.Symbol("n", integer=True, positive=True)
    product = 4 * FloorDiv(n, 4)
    holds = sympy.Eq(Max(1, product) if least else product, n, evaluate=False)
    assert str(Condition(as_remainder(holds), "")) == "n % 4 == 0"
