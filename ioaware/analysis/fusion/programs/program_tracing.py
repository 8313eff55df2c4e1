"""Run a Python function once on stand-ins and return the program it computes.

The stand-ins are for its sequences.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from keyword import iskeyword
from string import ascii_lowercase
from types import FrameType
from typing import Any, cast

import sympy

from ioaware.analysis.fusion.programs.program import Parameter, Program, Reduction
from ioaware.analysis.fusion.programs.stand_in import REMEDY, Recorder, Traced, symbol_like
from ioaware.errors import IoawareError, UsageError

_sympy: Any = sympy


def trace_program(function: Callable[..., Any]) -> Program:
    """Return the program that a function computes.

    Its parameters without defaults are the sequences.

    Raises `UsageError` for a function that is not reductions and maps over sequences of one length.
    """
    inputs = _inputs(function)
    recorder = Recorder()
    stand_ins = {name: Traced(recorder, symbol, is_sequence=True) for name, symbol in inputs.items()}
    returned, variables = _run(function, stand_ins)
    several = cast(Sequence[Any], returned if isinstance(returned, (tuple, list)) else (returned,))
    outputs = [_output(value) for value in several]
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
        raise UsageError(f"the parameters of {function!r} cannot be read", REMEDY) from error
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in variable for parameter in parameters):
        raise UsageError("the function takes *args or **kwargs", "Give each sequence its own parameter.")
    names = [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty]
    if not names:
        raise UsageError("the function takes no sequence", "Its parameters without a default are the sequences.")
    return {name: _sympy.Symbol(name, real=True) for name in names}


def _run(function: Callable[..., Any], stand_ins: Mapping[str, Traced]) -> tuple[Any, dict[str, Any]]:
    """Return what the function returns and its local variables.

    The variables give the reductions their names.
    """
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
        what = "the program returns a sequence; its first element needs the last input, so one pass cannot write it"
        raise UsageError(what, "Return what the reductions give; the map after them reads the data once more.")
    if not value.expr.free_symbols:
        raise UsageError("the program returns a constant", "Return a reduction, or a tuple of them.")
    return value


@dataclass(slots=True)
class _Names:
    """Names in use; a new one is as requested, with a letter appended if it is taken."""

    used: set[str]

    def new(self, wanted: str) -> str:
        others = (f"{wanted}{'_' * repeat}{letter}" for repeat in count() for letter in ascii_lowercase[1:])
        name = next(name for name in chain((wanted,), others) if name not in self.used and not iskeyword(name))
        self.used.add(name)
        return name


def _names(recorder: Recorder, inputs: Mapping[str, Any], variables: Mapping[str, Any], outputs: list[Any]) -> dict[Any, Any]:
    """Return the symbol that replaces each generated one.

    It is named after the variable that held it, or by its kind.
    """
    taken = _Names(set(inputs))
    of_expr: dict[Any, str] = {}
    for name, value in variables.items():
        if isinstance(value, Traced) and not value.is_sequence and name not in inputs:
            of_expr.setdefault(value.expr, name)
    result: dict[Any, Any] = {}
    for reduction in recorder.reductions:
        wanted = of_expr.get(reduction.symbol) or ("out" if reduction.symbol in outputs else _made_up(reduction))
        body = reduction.body.xreplace(result)
        result[reduction.symbol] = symbol_like(taken.new(wanted), body)
    for parameter in recorder.parameters:
        if parameter.value in result:
            result[parameter.symbol] = result[parameter.value]
            continue
        name = taken.new(of_expr.get(parameter.value, "p"))
        result[parameter.symbol] = symbol_like(name, parameter.value.xreplace(result))
    return result


def _made_up(reduction: Reduction) -> str:
    if reduction.body == 1:
        return "n"
    return (
        f"{reduction.op}_{reduction.body.name}"
        if reduction.body.is_Symbol
        else {"sum": "s", "max": "t", "min": "u"}[reduction.op]
    )
