"""Decide over which sizes a guard holds: always, for all large sizes, or not.

A guard that holds for all values, or only keeps sizes 0 and 1 apart, is no assumption of the formulas.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import sympy

from ioaware.analysis.ir.algebra.sympy_bridge import always_holds
from ioaware.errors import UsageError
from ioaware.symints.guard_evaluation import UnknownFunctionError, compute
from ioaware.symints.to_sympy import OpaqueExpressionError, plain

SMALLEST = 2
"""Smallest value of a symbol.

torch treats sizes 0 and 1 specially (broadcasting, contiguity). A parameter that is 1 runs as 2, and the result for 1 is
compared with a run on plain integers.
"""

RANDOM_SIZES = 24
_SAMPLE_SIZES = ((2, 3), (5, 64), (64, 2), (100, 33), (1000, 4096), (4095, 17), (2**40, 2**33 + 1))
"""Sample sizes for the symbols of a condition, some beyond 32 bits."""

INTEGRAL = frozenset(
    {
        *("Symbol", "Add", "Mul", "Max", "Min", "FloorDiv", "CleanDiv", "CeilDiv", "PythonMod", "Mod", "ModularIndexing"),
        *("Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "And", "Or", "Not"),
        *("LShift", "RShift", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor"),
        *("BitLength", "NextPowerOfTwo", "BooleanTrue", "BooleanFalse"),
    }
)
"""Functions of integers with integer or boolean values."""

_sympy: Any = sympy


@lru_cache(maxsize=4096)
def holds_always(expr: Any) -> bool | None:
    """Return whether a condition holds for all values of its symbols.

    The values begin at `SMALLEST`; None where it varies.

    Sample sizes are tried first: sympy takes up to a second.
    """
    if not all(_holds_at(expr, point) for point in _SAMPLE_SIZES):
        return None
    with suppress(OpaqueExpressionError):
        expr = plain(expr, {symbol: symbol for symbol in expr.free_symbols})
    with suppress(UsageError):
        if always_holds(expr, SMALLEST):
            return True
    lifted = {symbol: _sympy.Dummy(integer=True, positive=True) + (SMALLEST - 1) for symbol in expr.free_symbols}
    known: Any = expr.xreplace(lifted)
    if known.is_Relational:
        left, right = known.args
        known = known.func(_sympy.expand(left - right), 0)
    return bool(known) if known in (sympy.true, sympy.false) else None


def _holds_at(condition: Any, sizes: tuple[int, ...]) -> bool:
    """Return whether the condition holds at these sizes, or cannot be evaluated."""
    names = sorted(str(symbol) for symbol in condition.free_symbols)
    try:
        return bool(compute(condition, {name: sizes[at % len(sizes)] for at, name in enumerate(names)}))
    except (UnknownFunctionError, ArithmeticError, TypeError, ValueError):
        return True


@lru_cache(maxsize=4096)
def holds_for_large_sizes(condition: Any) -> bool:
    """Return whether a guard of torch says nothing about larger sizes.

    It only excludes sizes 0 and 1, or holds over the whole range of sizes.
    """
    if condition.func is sympy.Ne:
        return any(side in (0, 1) for side in condition.args)
    if condition.func not in (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge):
        return False
    draw = random.Random(0)  # noqa: S311 - sizes to try, the same ones each time
    symbols = sorted(condition.free_symbols, key=str)
    points = ({symbol: sympy.Integer(int(2 ** draw.uniform(6, 40))) for symbol in symbols} for _ in range(RANDOM_SIZES))
    return all(value_at(condition, point) == sympy.true for point in points)


def value_at(expr: Any, point: Mapping[Any, Any]) -> Any:
    """Substitute numbers for symbols.

    Python computes integer expressions much faster than sympy.
    """
    if _integral(expr) and expr.free_symbols <= point.keys():
        with suppress(ArithmeticError, ValueError):
            return _sympy.sympify(compute(expr, {str(symbol): int(size) for symbol, size in point.items()}))
    return expr.xreplace(point)


@lru_cache(maxsize=4096)
def _integral(expr: Any) -> bool:
    """Return whether all subexpressions are integers or booleans."""
    return all(map(_is_integral, sympy.preorder_traversal(expr)))


def _is_integral(node: Any) -> bool:
    name = type(node).__name__
    return name in INTEGRAL or node.is_Integer is True or (name == "PowByNatural" and node.args[1].is_nonnegative is True)
