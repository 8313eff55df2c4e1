"""Run a Python function once on stand-ins for its sequences and write down what it computes.

A stand-in is a sequence (one value per element) or a scalar (made of finished reductions). Whatever needs the values
themselves, such as a branch, an index or a loop over elements, has no single program and is refused where it happens.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from types import FrameType
from typing import Any, NoReturn

import sympy

from ioaware.analysis.fusion.functions import ELEMENTWISE, as_number
from ioaware.analysis.fusion.program import Parameter, Program, Reduction
from ioaware.errors import IoawareError, UsageError

_sympy: Any = sympy
REMEDY = "A program is elementwise functions and reductions of ioaware.fusion over sequences of one length."


class Traced:
    """A value of the program: an expression of inputs and parameters (a sequence) or of reductions (a scalar)."""

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
        return self.recorder.apply(lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> Traced:
        return self + other

    def __sub__(self, other: Any) -> Traced:
        return self.recorder.apply(lambda a, b: a - b, self, other)

    def __rsub__(self, other: Any) -> Traced:
        return self.recorder.apply(lambda a, b: b - a, self, other)

    def __mul__(self, other: Any) -> Traced:
        return self.recorder.apply(lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> Traced:
        return self * other

    def __truediv__(self, other: Any) -> Traced:
        return self.recorder.apply(lambda a, b: a / b, self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return self.recorder.apply(lambda a, b: b / a, self, other)

    def __pow__(self, exponent: Any) -> Traced:
        if isinstance(exponent, Traced):
            _refuse("a power whose exponent is not a number", "Write exp(exponent * log(base)).")
        return self.recorder.apply(lambda a, b: a**b, self, exponent)

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

    def _compare(self, other: Any) -> NoReturn:
        _refuse("a comparison", "Use maximum, minimum or absolute.")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compare  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # Python and numpy look for these and expect AttributeError
            raise AttributeError(name)
        _refuse(f"the attribute .{name}", "Use the functions of ioaware.fusion.")


class Recorder:
    """What the function has computed so far, under names that are replaced by the function's own at the end."""

    def __init__(self) -> None:
        self.reductions: list[Reduction] = []
        self.parameters: list[Parameter] = []

    def apply(self, function: Callable[..., Any], *values: Any) -> Traced:
        """Apply a function element by element; scalars among sequences become parameters of the map."""
        is_sequence = any(isinstance(value, Traced) and value.is_sequence for value in values)
        expr = function(*(self._operand(value, in_map=is_sequence) for value in values))
        if expr.has(_sympy.zoo, _sympy.nan, _sympy.I):
            _refuse("a value that no element has (a division by 0, the root or logarithm of a negative number)", "")
        return Traced(self, expr, is_sequence=is_sequence)

    def reduce(self, op: str, value: Traced) -> Traced:
        """Record a reduction; the same one again is the same scalar."""
        if not value.is_sequence:
            _refuse(f"reduce_{op} of a scalar", "A finished reduction is no sequence; use it in a map of the elements first.")
        for known in self.reductions:
            if known.op == op and known.body == value.expr:
                return Traced(self, known.symbol, is_sequence=False)
        symbol = _like(f"r{len(self.reductions)}?", value.expr)
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
        parameter = Parameter(_like(f"p{len(self.parameters)}?", expr), expr)
        self.parameters.append(parameter)
        return parameter.symbol


def trace_program(function: Callable[..., Any]) -> Program:
    """Return the program that a function computes: its parameters without defaults are the sequences.

    Raises `UsageError` for a function that is not reductions and maps over sequences of one length.
    """
    inputs = _inputs(function)
    recorder = Recorder()
    stand_ins = {name: Traced(recorder, symbol, is_sequence=True) for name, symbol in inputs.items()}
    returned, variables = _run(function, stand_ins)
    outputs = [_output(value) for value in (returned if isinstance(returned, (tuple, list)) else (returned,))]
    names = _names(recorder, inputs, variables, [output.expr for output in outputs])
    renamed = Program(
        getattr(function, "__name__", "program"),
        tuple(inputs.values()),
        tuple(Parameter(names[p.symbol], p.value.xreplace(names)) for p in recorder.parameters),
        tuple(Reduction(names[r.symbol], r.op, r.body.xreplace(names)) for r in recorder.reductions),
        tuple(output.expr.xreplace(names) for output in outputs),
    )
    return renamed.pruned()


def _inputs(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a symbol for each parameter without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{function!r} is no function whose parameters can be read", REMEDY) from error
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in variable for parameter in parameters):
        raise UsageError("the function takes *args or **kwargs", "Give each sequence a parameter of its own.")
    names = [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty]
    if not names:
        raise UsageError("the function takes no sequence", "Its parameters without a default are the sequences.")
    return {name: _sympy.Symbol(name, real=True) for name in names}


def _run(function: Callable[..., Any], stand_ins: Mapping[str, Traced]) -> tuple[Any, dict[str, Any]]:
    """Return what the function returns and its local variables, which give the reductions their names."""
    variables: dict[str, Any] = {}
    code = getattr(function, "__code__", None)

    def remember(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is code:
            variables.update(frame.f_locals)

    positional = [
        stand_ins[name]
        for name, parameter in inspect.signature(function).parameters.items()
        if name in stand_ins and parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    by_name = {name: value for name, value in stand_ins.items() if value not in set(positional)}
    before = sys.getprofile()
    sys.setprofile(remember)
    try:
        return function(*positional, **by_name), variables
    except IoawareError as error:
        raise UsageError(f"{error.what}{_place(error, function)}", error.remedy) from error
    except Exception as error:
        raise UsageError(f"the program fails: {type(error).__name__}{_place(error, function)}: {error}", REMEDY) from error
    finally:
        sys.setprofile(before)


def _place(error: BaseException, function: Callable[..., Any]) -> str:
    """Return " (file.py:12)", the line of the function that failed."""
    filename = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    return f" ({lines[-1].filename.rpartition('/')[2]}:{lines[-1].lineno})" if lines else ""


def _output(value: Any) -> Traced:
    """Return an output if it is a scalar made of reductions."""
    if not isinstance(value, Traced):
        raise UsageError(f"the program returns a {type(value).__name__}", "Return a reduction, or a tuple of them.")
    if value.is_sequence:
        what = "the program returns a sequence, whose first element needs the last input: one pass cannot write it"
        raise UsageError(what, "Return what the reductions give; the map after them reads the data once more.")
    if not value.expr.free_symbols:
        raise UsageError("the program returns a constant", "Return a reduction, or a tuple of them.")
    return value


@dataclass(slots=True)
class _Names:
    """Names in use; a new one is the wanted name or that with a number."""

    used: set[str]

    def new(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.used or iskeyword(name):
            name, number = f"{wanted}_{number}", number + 1
        self.used.add(name)
        return name


def _names(recorder: Recorder, inputs: Mapping[str, Any], variables: Mapping[str, Any], outputs: list[Any]) -> dict[Any, Any]:
    """Return the symbol that replaces each made-up one: named as the variable that held it, or by what it is."""
    taken = _Names(set(inputs))
    of_expr: dict[Any, str] = {}
    for name, value in variables.items():
        if isinstance(value, Traced) and not value.is_sequence and name not in inputs:
            of_expr.setdefault(value.expr, name)
    result: dict[Any, Any] = {}
    for reduction in recorder.reductions:
        wanted = of_expr.get(reduction.symbol) or ("out" if reduction.symbol in outputs else _made_up(reduction))
        body = reduction.body.xreplace(result)
        result[reduction.symbol] = _like(taken.new(wanted), body)
    for parameter in recorder.parameters:
        if parameter.value in result:
            result[parameter.symbol] = result[parameter.value]
            continue
        name = taken.new(of_expr.get(parameter.value, "p"))
        result[parameter.symbol] = _like(name, parameter.value.xreplace(result))
    return result


def _made_up(reduction: Reduction) -> str:
    if reduction.body == 1:
        return "n"
    return (
        f"{reduction.op}_{reduction.body.name}"
        if reduction.body.is_Symbol
        else {"sum": "s", "max": "t", "min": "u"}[reduction.op]
    )


def _like(name: str, expr: Any) -> Any:
    """Return a symbol that is positive where the expression cannot be negative: 0 is left to the guards."""
    return _sympy.Symbol(name, positive=True) if expr.is_nonnegative else _sympy.Symbol(name, real=True)


def _refuse(what: str, remedy: str) -> NoReturn:
    raise UsageError(f"the program uses {what}", remedy or REMEDY)
