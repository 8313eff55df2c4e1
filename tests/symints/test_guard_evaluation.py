"""Guards evaluated at arrays of points equal guards evaluated one by one.

This holds beyond 64 bits too.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import sympy
from torch.utils._sympy import functions

from ioaware.symints.guard_evaluation import UnknownFunctionError, compute
from ioaware.symints.powers_of_two import BitLength, NextPowerOfTwo

torch_functions: Any = functions
a, b = sympy.symbols("a b", integer=True, positive=True)
NUMBERS = (-7, -1, 0, 1, 2, 3, 64, 2**20, 2**33)
COMPARISONS = (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge, sympy.Eq, sympy.Ne)
OPERATIONS: tuple[Any, ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    torch_functions.Max,
    torch_functions.Min,
    torch_functions.FloorDiv,
    torch_functions.PythonMod,
    torch_functions.BitwiseFn_bitwise_or,
    lambda x, _: BitLength(x),
    lambda x, _: NextPowerOfTwo(torch_functions.Max(1, x)),
)


def random_expression(draw: random.Random, depth: int) -> Any:
    """Return a random expression of the given depth."""
    if not depth:
        return draw.choice([a, b, sympy.Integer(draw.choice(NUMBERS))])
    one, other = random_expression(draw, depth - 1), random_expression(draw, depth - 1)
    try:
        return draw.choice(OPERATIONS)(one, other)
    except (ZeroDivisionError, AssertionError):
        return one


def outcome(expr: Any, values: Any) -> Any:
    try:
        return compute(expr, values)
    except (ZeroDivisionError, UnknownFunctionError) as error:
        return type(error)


@pytest.mark.parametrize("seed", range(200))
def test_arrays_evaluate_like_single_points(seed: int) -> None:
    draw = random.Random(seed)
    expr = random_expression(draw, 3)
    if draw.random() < 0.4:
        expr = draw.choice(COMPARISONS)(expr, random_expression(draw, 2))
    sizes = [1, 2, 3, 64, 1000, 2**31 - 1, 2**31, 2**40]
    points = [
        (draw.choice(sizes) if draw.random() < 0.2 else draw.randrange(1, 5000), draw.randrange(1, 300)) for _ in range(8)
    ]
    alone = [outcome(expr, {"a": x, "b": y}) for x, y in points]
    together = outcome(expr, {"a": np.array([x for x, _ in points]), "b": np.array([y for _, y in points])})
    if isinstance(together, type):
        assert together in alone
    else:
        assert np.broadcast_to(np.asarray(together, object), 8).tolist() == alone
