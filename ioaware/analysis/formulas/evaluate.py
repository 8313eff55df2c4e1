"""Evaluate formulas exactly: compile a sympy expression to a function.

The function works over Python ints or int64 arrays.

Every value is a ratio of two integers until the end: `ceiling(N/B_r)` is an integer division, never a float. An int64 array
that could overflow is widened to Python ints first. No code is generated or parsed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, TypeAlias, cast

import numpy as np
import sympy
from sympy import Expr
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from ioaware.analysis.formulas import exact_ratio
from ioaware.analysis.formulas.batched_sums import Summation
from ioaware.analysis.formulas.evaluation_frames import Frame, Node
from ioaware.analysis.formulas.exact_ratio import Array, Number, Ratio, Truth, Whole
from ioaware.analysis.formulas.functions import Holds, Series, arguments, free_symbols
from ioaware.analysis.formulas.shift_invariance import shift

Env: TypeAlias = Mapping[str, Number]


class OutsideFormulaError(ValueError):
    """No branch of a formula applies at these values."""


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """Return the integer value of `expr` at these values of its symbols.

    Raises `ValueError` when a symbol has no value or the result is not an integer. Raises `TypeError` for a value that is not
    an int or a function without an exact rule, and `ZeroDivisionError` for a division by zero.
    """
    for name, value in values.items():
        if type(value) is not int:
            raise TypeError(f"{name} must be an int, not {value!r}")
    return int(compile_expression(expr)(values))


@lru_cache(maxsize=4096)
def compile_expression(expr: Expr) -> Callable[[Env], Number]:
    """Return a function from symbol values to the exact integer value of `expr`.

    The values are given by symbol name.

    Values may mix ints and integer arrays that broadcast together. The result is then an int64 array, or an array of
    Python ints where it does not fit 64 bits. Raises as `evaluate` does.
    """
    node = _Compiler().node(expr)

    def run(values: Env) -> Number:
        missing = node.names - values.keys()
        if missing:
            raise ValueError(f"no value for {', '.join(sorted(missing))}")
        shapes = [np.shape(value) for value in values.values() if not isinstance(value, int)]  # an int has none
        shape = np.broadcast_shapes(*shapes) if shapes else ()
        if not shape:
            point = {name: operator.index(cast(int, values[name])) for name in node.names}
            return cast(int, exact_ratio.integer(Frame(None, point).of(node), expr))
        columns = {name: _column(values[name], name, shape) for name in node.names}
        found = exact_ratio.integer(Frame(int(np.prod(shape)), columns).of(node), expr)
        return _array(found, shape)

    return run


def _column(value: Number, name: str, shape: tuple[int, ...]) -> Whole:
    """Convert to int64, or to Python ints beyond 64 bits; floats are refused."""
    if isinstance(value, int):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "iuO":
        raise TypeError(f"{name} must hold integers, not {array.dtype}")
    array = array.astype(object) if array.dtype.kind == "u" else array
    return exact_ratio.column(np.broadcast_to(array, shape).ravel())


def _array(found: Whole, shape: tuple[int, ...]) -> Array:
    if isinstance(found, int):
        return np.full(shape, found, np.int64 if abs(found) <= exact_ratio.INT64_MAX else object)
    return exact_ratio.column(found.values).values.reshape(shape).copy()


class _Part:
    """Part of a formula: its value is a function of smaller parts."""

    __slots__ = ("_value", "index", "names", "parts", "shared")

    def __init__(
        self,
        value: Callable[[Frame], Ratio],
        parts: Sequence[Node] = (),
        names: Iterable[str] | None = None,
        index: str | None = None,
    ) -> None:
        self._value, self.parts, self.index, self.shared = value, parts, index, False
        self.names = frozenset[str]().union(*(part.names for part in parts)) if names is None else frozenset(names)

    def compute(self, frame: Frame) -> Ratio:
        return self._value(frame)


_FOLDS: Mapping[type, Callable[[Ratio, Ratio], Ratio]] = {
    sympy.Add: exact_ratio.add,
    sympy.Mul: exact_ratio.multiply,
    sympy.Max: exact_ratio.larger,
    sympy.Min: exact_ratio.smaller,
}
_ROUNDINGS: Mapping[type, Callable[[Ratio], Ratio]] = {
    sympy.floor: exact_ratio.floor,
    sympy.ceiling: exact_ratio.ceiling,
    Holds: exact_ratio.holds,
}
_COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
}


class _Condition:
    """Condition of a branch; it depends on `parts`."""

    def __init__(self, met: Callable[[Frame], Truth], parts: Sequence[Node]) -> None:
        self.met, self.parts = met, parts
        self.names = frozenset[str]().union(*(part.names for part in parts))


class _Compiler:
    """Compile one formula; equal parts are shared.

    `_indices` are those of the surrounding sums, outermost first.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Node] = {}
        self._indices: tuple[str, ...] = ()

    def node(self, expr: Any) -> Node:
        """Compile one expression. Raises `TypeError` for anything without an exact rule."""
        names = frozenset(map(str, free_symbols(expr)))
        return self._once((expr, *(index for index in self._indices if index in names)), lambda: self._new(expr))

    def _once(self, key: tuple[Any, ...], make: Callable[[], Node]) -> Node:
        """Return the part of this key, shared by all users."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        else:
            found.shared = True
        return found

    def _new(self, expr: Any) -> Node:
        if isinstance(expr, sympy.Symbol):
            name = str(expr)
            return _Part(lambda frame: (frame.symbol(name), 1), names=[name])
        if isinstance(expr, sympy.Rational):
            constant: Ratio = (int(expr.p), int(expr.q))
            return _Part(lambda _: constant)
        if isinstance(expr, sympy.Pow):
            return self._power(expr)
        if isinstance(expr, sympy.Piecewise):
            return self._piecewise(expr)
        if isinstance(expr, sympy.Sum):
            return self._sum(expr)
        kind: type = type(cast(object, expr))
        if kind in _FOLDS:
            return self._folded(_FOLDS[kind], list(map(self.node, arguments(expr))))
        if kind is sympy.Mod:
            number, divisor = map(self.node, arguments(expr))
            return _Part(lambda frame: exact_ratio.mod(frame.of(number), frame.of(divisor)), (number, divisor))
        if kind in _ROUNDINGS:
            rounding, inner = _ROUNDINGS[kind], self.node(arguments(expr)[0])
            return _Part(lambda frame: rounding(frame.of(inner)), (inner,))
        raise TypeError(f"cannot evaluate {kind.__name__} exactly: {expr}")

    def _folded(self, fold: Callable[[Ratio, Ratio], Ratio], parts: Sequence[Node]) -> Node:
        """Fold operands in the order of the indices they vary with.

        Invariant parts are thereby separate.
        """
        if len(parts) == 1:
            return parts[0]
        for depth in range(len(self._indices)):
            still = [part for part in parts if part.names.isdisjoint(self._indices[depth:])]
            if 1 < len(still) < len(parts) and any(part.names for part in still):
                moving = [part for part in parts if part not in still]
                first = self._once((fold, *still), lambda still=still: _fold(fold, still))
                return self._folded(fold, [first, *moving])
        return _fold(fold, parts)

    def _power(self, expr: Any) -> Node:
        base, exponent = arguments(expr)
        if not isinstance(exponent, sympy.Integer):
            raise TypeError(f"cannot evaluate a power that is not a constant integer exactly: {expr}")
        inner, count = self.node(base), int(exponent)

        def power(frame: Frame) -> Ratio:
            value = frame.of(inner)
            factor = value if count > 0 else exact_ratio.invert(value)
            return reduce(exact_ratio.multiply, [factor] * abs(count))

        return _Part(power, (inner,))

    def _piecewise(self, expr: Any) -> Node:
        """Evaluate the first branch with a true condition, only at its points.

        Others may divide by zero.
        """
        branches = [(self.node(value), self._condition(condition)) for value, condition in map(arguments, arguments(expr))]

        def choose(frame: Frame) -> Ratio:
            if frame.size is None:
                for value, condition in branches:
                    if condition.met(frame):
                        return frame.of(value)
                raise OutsideFormulaError(f"no branch applies at these values: {expr}")
            numerator, denominator = np.zeros(frame.size, object), np.ones(frame.size, object)
            pending = np.arange(frame.size)
            for value, condition in branches:
                rest = frame.part(pending, condition.names)
                holds = np.broadcast_to(condition.met(rest), pending.shape)
                chosen, pending = pending[holds], pending[~holds]
                if chosen.size:
                    found = frame.part(chosen, value.names).of(value)
                    numerator[chosen], denominator[chosen] = (x if isinstance(x, int) else x.values for x in found)
                if not pending.size:
                    return exact_ratio.column(numerator), exact_ratio.column(denominator)
            raise OutsideFormulaError(f"no branch applies at {pending.size} of the points: {expr}")

        parts = [part for value, condition in branches for part in (value, *condition.parts)]
        return _Part(choose, parts)

    def _condition(self, condition: Any) -> _Condition:
        if isinstance(condition, (BooleanTrue, BooleanFalse)):
            truth = isinstance(condition, BooleanTrue)
            return _Condition(lambda _: truth, ())
        if isinstance(condition, Relational) and type(condition) in _COMPARISONS:
            how = _COMPARISONS[type(condition)]
            left, right = map(self.node, arguments(condition))
            return _Condition(lambda frame: exact_ratio.compare(frame.of(left), frame.of(right), how), (left, right))
        if isinstance(condition, (sympy.And, sympy.Or, sympy.Not)):
            inner = [self._condition(arg) for arg in arguments(condition)]
            parts = [part for each in inner for part in each.parts]
            join = _both if isinstance(condition, sympy.And) else _one
            if isinstance(condition, sympy.Not):
                return _Condition(lambda frame: inner[0].met(frame) ^ True, parts)
            return _Condition(lambda frame: reduce(join, (each.met(frame) for each in inner)), parts)
        raise TypeError(f"cannot decide {type(condition).__name__} exactly: {condition}")

    def _sum(self, expr: Any) -> Node:
        """Sum over an integer index at many points; an empty range gives 0."""
        body, *limits = arguments(expr)
        return self._summed(body, limits)

    def _summed(self, body: Any, limits: Sequence[Any]) -> Node:
        if not limits:
            return self.node(body)
        index, low, high = arguments(limits[-1])  # the first limit is the innermost
        ends, name = (self.node(low), self.node(high)), str(index)
        self._indices += (name,)
        try:
            term = self._summed(body, limits[:-1])
        finally:
            self._indices = self._indices[:-1]
        names = (term.names - {name}).union(*(end.names for end in ends))
        inner = Series(body, *limits[:-1]) if limits[1:] else body
        summation = Summation(term, name, *ends, body, shift(inner, name))
        return _Part(lambda frame: (summation.total(frame), 1), (*ends, term), names, name)


def _both(a: Truth, b: Truth) -> Truth:
    return a & b


def _one(a: Truth, b: Truth) -> Truth:
    return a | b


def _fold(fold: Callable[[Ratio, Ratio], Ratio], parts: Sequence[Node]) -> Node:
    return _Part(lambda frame: reduce(fold, (frame.of(part) for part in parts)), parts)
