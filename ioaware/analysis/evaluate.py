"""Exact evaluation of formulas: a sympy expression becomes a function over Python ints or int64 arrays of many points.

Every value is a ratio of two integers until the end, so that `ceiling(N/B_r)` is an integer division and never passes
through a float. An int64 array that could overflow is widened to Python ints first. No code is generated or parsed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any, TypeAlias, cast

import numpy as np
import sympy
from sympy import Expr
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from ioaware.analysis import ratio
from ioaware.analysis.integers import Holds
from ioaware.analysis.ratio import INT64_MAX, Array, Number, Ratio

Env: TypeAlias = Mapping[str, Number]
Node: TypeAlias = Callable[[Env], Ratio]
Condition: TypeAlias = Callable[[Env], bool | Array]


class OutsideFormulaError(ValueError):
    """No branch of a formula applies at these values: for them it says nothing."""


SUM_CHUNK = 2**18  # terms of a Sum held at once


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The integer value of `expr` at these values of its symbols.

    Raises `ValueError` when a symbol has no value or the result is not an integer, `TypeError` for a value that is not
    an int or a function that exact evaluation does not know, `ZeroDivisionError` for a division by zero.
    """
    for name, value in values.items():
        if type(value) is not int:
            raise TypeError(f"{name} must be an int, not {value!r}")
    return int(compile_expression(expr)(values))


@lru_cache(maxsize=4096)
def compile_expression(expr: Expr) -> Callable[[Env], Number]:
    """A function from the values of the symbols (by name) to the exact integer value of `expr`.

    Values may mix ints and integer arrays that broadcast together; the result is then an int64 array, or an array of
    Python ints where it does not fit 64 bits. Raises as `evaluate` does.
    """
    node, names = _compile(expr), frozenset(str(symbol) for symbol in free_symbols(expr))

    def run(values: Env) -> Number:
        missing = names - values.keys()
        if missing:
            raise ValueError(f"no value for {', '.join(sorted(missing))}")
        env: dict[str, Number] = {name: values[name] for name in names}
        shape = np.broadcast_shapes(*(np.shape(value) for value in values.values()))
        if not shape:
            return ratio.integer(node({name: operator.index(cast(int, value)) for name, value in env.items()}), expr)
        for name, value in env.items():
            if not isinstance(value, int):
                env[name] = np.broadcast_to(_integer_array(value, name), shape).ravel()
        result = np.asarray(ratio.integer(node(env), expr))
        return np.broadcast_to(result, shape).copy() if result.ndim == 0 else result.reshape(shape)

    return run


def _integer_array(value: Array, name: str) -> Number:
    """As int64, or Python ints when it holds larger ones. Floats are refused: rounding must happen in the open."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuO":
        raise TypeError(f"{name} must hold integers, not {array.dtype}")
    return ratio.narrow(array.astype(object)) if array.dtype.kind in "uO" else array.astype(np.int64)


_FOLDS: Mapping[type, Callable[[Ratio, Ratio], Ratio]] = {
    sympy.Add: ratio.add,
    sympy.Mul: ratio.multiply,
    sympy.Max: ratio.larger,
    sympy.Min: ratio.smaller,
    sympy.Mod: ratio.mod,
}
_ROUNDINGS: Mapping[type, Callable[[Ratio], Ratio]] = {sympy.floor: ratio.floor, sympy.ceiling: ratio.ceiling}


def _args(expr: Any) -> tuple[Any, ...]:
    return tuple(expr.args)


@lru_cache(maxsize=16384)
def free_symbols(expr: Any) -> frozenset[Any]:
    """What an expression needs values for, as sympy's own `free_symbols`, which simplifies every sum to find that out."""
    if isinstance(expr, sympy.Symbol):
        return frozenset({cast(Any, expr)})
    body, *limits = _args(expr) or (None,)
    if not isinstance(expr, sympy.Sum):
        return frozenset[Any]().union(*map(free_symbols, _args(expr)))
    found = free_symbols(body)
    for limit in limits:  # the first limit is the innermost
        index, low, high = _args(limit)
        found = found - {index} | free_symbols(low) | free_symbols(high)
    return found


def _compile(expr: Any) -> Node:
    """The function of one node. Raises `TypeError` for anything that has no exact rule here."""
    if isinstance(expr, sympy.Symbol):
        name = str(expr)
        return lambda env: (env[name], 1)
    if isinstance(expr, sympy.Rational):
        constant: Ratio = (int(expr.p), int(expr.q))
        return lambda _: constant
    if isinstance(expr, sympy.Pow):
        return _compile_power(expr)
    if isinstance(expr, sympy.Piecewise):
        return _compile_piecewise(expr)
    if isinstance(expr, sympy.Sum):
        return _compile_sum(expr)
    kind: type = type(cast(object, expr))
    if kind in _FOLDS:
        fold, parts = _FOLDS[kind], [_compile(arg) for arg in _args(expr)]
        return lambda env: reduce(fold, (part(env) for part in parts))
    if kind in _ROUNDINGS:
        rounding, inner = _ROUNDINGS[kind], _compile(_args(expr)[0])
        return lambda env: rounding(inner(env))
    if kind is Holds:
        return _compile_holds(expr)
    raise TypeError(f"cannot evaluate {kind.__name__} exactly: {expr}")


def _compile_holds(expr: Any) -> Node:
    inner = _compile(_args(expr)[0])

    def holds(env: Env) -> Ratio:
        met = inner(env)[0] >= 0  # denominators are positive
        return (int(met) if isinstance(met, bool) else met.astype(np.int64)), 1

    return holds


def _compile_power(expr: Any) -> Node:
    base, exponent = _args(expr)
    if not isinstance(exponent, sympy.Integer):
        raise TypeError(f"cannot evaluate a power that is not a constant integer exactly: {expr}")
    inner, count = _compile(base), int(exponent)

    def power(env: Env) -> Ratio:
        value = inner(env)
        factor = value if count > 0 else ratio.invert(value)
        return reduce(ratio.multiply, [factor] * abs(count))

    return power


_COMPARISONS: Mapping[type, Callable[[Number, Number], bool | Array]] = {
    sympy.Lt: lambda a, b: a < b,
    sympy.Le: lambda a, b: a <= b,
    sympy.Gt: lambda a, b: a > b,
    sympy.Ge: lambda a, b: a >= b,
    sympy.Eq: lambda a, b: a == b,
    sympy.Ne: lambda a, b: a != b,
}


def _compile_condition(condition: Any) -> Condition:
    if isinstance(condition, (BooleanTrue, BooleanFalse)):
        truth = isinstance(condition, BooleanTrue)
        return lambda _: truth
    if isinstance(condition, Relational) and type(condition) in _COMPARISONS:
        compare = _COMPARISONS[type(condition)]
        left, right = (_compile(arg) for arg in _args(condition))
        return lambda env: compare(*ratio.cross(left(env), right(env)))
    if isinstance(condition, (sympy.And, sympy.Or)):
        parts = [_compile_condition(arg) for arg in _args(condition)]
        if isinstance(condition, sympy.And):
            return lambda env: reduce(lambda a, b: a & b, (part(env) for part in parts))
        return lambda env: reduce(lambda a, b: a | b, (part(env) for part in parts))
    if isinstance(condition, sympy.Not):
        inner = _compile_condition(_args(condition)[0])
        return lambda env: inner(env) ^ True
    raise TypeError(f"cannot decide {type(condition).__name__} exactly: {condition}")


def _take(env: Env, at: Array) -> dict[str, Number]:
    """The environment of some of the points."""
    return {name: value if isinstance(value, int) else value[at] for name, value in env.items()}


def _size(env: Env) -> int | None:
    """How many points an environment holds; None for one point of plain ints."""
    return next((value.size for value in env.values() if not isinstance(value, int)), None)


def _compile_piecewise(expr: Any) -> Node:
    """The first branch whose condition holds, evaluated only where it does: others may divide by zero there."""
    branches = [(_compile(value), _compile_condition(condition)) for value, condition in map(_args, _args(expr))]

    def choose(env: Env) -> Ratio:
        size = _size(env)
        if size is None:
            for value, condition in branches:
                if condition(env):
                    return value(env)
            raise OutsideFormulaError(f"no branch applies at these values: {expr}")
        numerator, denominator = np.zeros(size, object), np.ones(size, object)
        pending = np.arange(size)
        for value, condition in branches:
            holds = np.broadcast_to(condition(_take(env, pending)), pending.shape)
            chosen, pending = pending[holds], pending[~holds]
            if chosen.size:
                numerator[chosen], denominator[chosen] = value(_take(env, chosen))
        if pending.size:
            raise OutsideFormulaError(f"no branch applies at {pending.size} of the points: {expr}")
        return ratio.narrow(numerator), ratio.narrow(denominator)

    return choose


def _compile_sum(expr: Any) -> Node:
    """A sum over an integer index, all terms of many points at once; an upper limit below the lower one gives 0."""
    body: Any
    body, *limits = _args(expr)
    node = _compile(body)
    for limit in limits:  # the first limit is the innermost
        index, low, high = _args(limit)
        needed = frozenset(str(symbol) for symbol in free_symbols(body)) - {str(index)}
        node = _sum_node(node, str(index), _compile(low), _compile(high), needed, body)
        body = cast(Any, sympy.Sum(body, limit))
    return node


def _sum_node(term: Node, index: str, low: Node, high: Node, needed: frozenset[str], what: object) -> Node:
    def add_up(env: Env) -> Ratio:
        first, last = ratio.integer(low(env), what), ratio.integer(high(env), what)
        size = _size(env)
        starts = np.broadcast_to(np.asarray(first), (size or 1,))
        counts = np.maximum(np.broadcast_to(np.asarray(last), starts.shape) - starts + 1, 0)
        ends = np.cumsum(counts)  # terms of all points in one line; point p owns those before ends[p]
        outer = {name: env[name] for name in needed}
        totals = np.zeros(starts.shape, object)
        for begin in range(0, int(ends[-1]) if ends.size else 0, SUM_CHUNK):
            line = np.arange(begin, min(begin + SUM_CHUNK, int(ends[-1])))
            point = np.searchsorted(ends, line, side="right")
            local = _take(outer, point)
            local[index] = starts[point] + line - (ends - counts)[point]
            terms = np.broadcast_to(np.asarray(ratio.integer(term(local), what)), line.shape)
            if ratio.peak(terms) * line.size > INT64_MAX:
                terms = terms.astype(object)
            heads = np.flatnonzero(np.diff(point, prepend=-1))  # where a new point's terms begin
            totals[point[heads]] += np.add.reduceat(terms, heads)
        return (int(totals[0]) if size is None else ratio.narrow(totals)), 1

    return add_up
