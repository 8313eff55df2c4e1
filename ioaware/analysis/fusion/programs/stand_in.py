"""Record the computations of a program on stand-ins for its sequences and scalars.

A stand-in is a sequence (one value per element) or a scalar (made of finished reductions). A branch, an index or a loop over
elements needs the values themselves. It has no single program and is refused where it happens.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import sympy

from ioaware.analysis.fusion.expressions.elementwise import ELEMENTWISE, as_number
from ioaware.analysis.fusion.programs.program import Parameter, Reduction
from ioaware.errors import UsageError

_sympy: Any = sympy
_operator: Any = operator
REMEDY = "A program is elementwise functions and reductions of ioaware.fusion over sequences of one length."


class Traced:
    """Value of the program: an expression for a sequence or a scalar.

    A sequence is an expression of inputs and parameters, and a scalar is one of reductions.
    """

    def __init__(self, recorder: Recorder, expr: Any, *, is_sequence: bool) -> None:
        self.recorder = recorder
        self.expr = expr
        self.is_sequence = is_sequence

    def traced_elementwise(self, name: str, values: tuple[Any, ...]) -> Traced:
        """Apply an elementwise function of `ioaware.fusion`."""
        return self.recorder.apply(ELEMENTWISE[name], *values)

    def traced_reduction(self, op: str) -> Traced:
        """Reduce this sequence over its elements."""
        return self.recorder.reduce(op, self)

    def __add__(self, other: Any) -> Traced:
        return self.recorder.apply(_operator.add, self, other)

    def __radd__(self, other: Any) -> Traced:
        return self + other

    def __sub__(self, other: Any) -> Traced:
        return self.recorder.apply(_operator.sub, self, other)

    def __rsub__(self, other: Any) -> Traced:
        return self.recorder.apply(_operator.sub, other, self)

    def __mul__(self, other: Any) -> Traced:
        return self.recorder.apply(_operator.mul, self, other)

    def __rmul__(self, other: Any) -> Traced:
        return self * other

    def __truediv__(self, other: Any) -> Traced:
        return self.recorder.apply(_operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return self.recorder.apply(_operator.truediv, other, self)

    def __pow__(self, exponent: Any) -> Traced:
        if isinstance(exponent, Traced):
            _refuse("a power whose exponent is not a number", "Write exp(exponent * log(base)).")
        return self.recorder.apply(_operator.pow, self, exponent)

    def __neg__(self) -> Traced:
        return self * -1

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return self.recorder.apply(ELEMENTWISE["absolute"], self)

    def __round__(self, digits: int | None = None) -> Traced:
        if digits:
            _refuse("rounding to digits", "Scale, round to an integer, and scale back.")
        return self.recorder.apply(ELEMENTWISE["rint"], self)

    def __bool__(self) -> NoReturn:
        _refuse("a branch on a value (if, while, and, or, not)", "Use maximum, minimum or absolute.")

    def __iter__(self) -> NoReturn:
        _refuse("a loop over the elements", "Reductions are reduce_sum, reduce_max, reduce_min, reduce_mean.")

    def __len__(self) -> NoReturn:
        _refuse("len() of a sequence", "Use length(x).")

    def __getitem__(self, index: Any) -> NoReturn:
        _refuse("an element or part of a sequence by index", "A map may use only the same element of every sequence.")

    def __matmul__(self, other: Any) -> NoReturn:
        _refuse("a matrix product", "Write reduce_sum(x * y), one sequence per product.")

    def __float__(self) -> NoReturn:
        _refuse("a value as a Python number", "Use the functions of ioaware.fusion, not those of math.")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a value as a numpy array", "Use the functions of ioaware.fusion, not those of numpy.")

    def __array_ufunc__(self, function: Any, *_: Any, **__: Any) -> NoReturn:
        _refuse(f"numpy.{function.__name__}", "Use the functions of ioaware.fusion and Python's numbers, not those of numpy.")

    def __rpow__(self, base: Any) -> NoReturn:
        _refuse("a power whose exponent is not a number", "Write exp(exponent * log(base)).")

    def _compare(self, _: Any) -> NoReturn:
        _refuse("a comparison", "Use maximum, minimum or absolute.")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compare  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # Python and numpy look for these and expect AttributeError
            raise AttributeError(name)
        _refuse(f"the attribute .{name}", "Use the functions of ioaware.fusion.")


class Recorder:
    """Computations so far, under temporary names.

    These are replaced by the function's own at the end.
    """

    def __init__(self) -> None:
        self.reductions: list[Reduction] = []
        self.parameters: list[Parameter] = []

    def apply(self, function: Callable[..., Any], *values: Any) -> Traced:
        """Apply a function element by element.

        Scalars among sequences become parameters of the map.
        """
        is_sequence = any(isinstance(value, Traced) and value.is_sequence for value in values)
        expr = function(*(self._operand(value, in_map=is_sequence) for value in values))
        if expr.has(_sympy.zoo, _sympy.nan, _sympy.I):
            _refuse("a value that no element has (a division by 0, the root or logarithm of a negative number)", "")
        return Traced(self, expr, is_sequence=is_sequence)

    def reduce(self, op: str, value: Traced) -> Traced:
        """Record a reduction; the same one again is the same scalar."""
        if not value.is_sequence:
            _refuse(f"reduce_{op} of a scalar", "A finished reduction is not a sequence; use it in a map first.")
        for known in self.reductions:
            if known.op == op and known.body == value.expr:
                return Traced(self, known.symbol, is_sequence=False)
        symbol = symbol_like(f"r{len(self.reductions)}?", value.expr)
        self.reductions.append(Reduction(symbol, op, value.expr))
        return Traced(self, symbol, is_sequence=False)

    def _operand(self, value: Any, *, in_map: bool) -> Any:
        if isinstance(value, Traced):
            if value.recorder is not self:
                _refuse("a value of another program", "Build every value inside the function.")
            return self._parameter(value.expr) if in_map and not value.is_sequence else value.expr
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return as_number(value)
        return _refuse(f"a {type(value).__name__} among the values", "Constants are Python numbers.")

    def _parameter(self, expr: Any) -> Any:
        if not expr.free_symbols:
            return expr
        for parameter in self.parameters:
            if parameter.value == expr:
                return parameter.symbol
        parameter = Parameter(symbol_like(f"p{len(self.parameters)}?", expr), expr)
        self.parameters.append(parameter)
        return parameter.symbol


def symbol_like(name: str, expr: Any) -> Any:
    """Return a symbol that is positive where the expression cannot be negative.

    0 is left to the guards.
    """
    return _sympy.Symbol(name, positive=True) if expr.is_nonnegative else _sympy.Symbol(name, real=True)


def _refuse(what: str, remedy: str) -> NoReturn:
    raise UsageError(f"the program uses {what}", remedy or REMEDY)
