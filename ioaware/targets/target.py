"""A target: something to trace, derive or measure. A case of this package, or any function that launches Triton kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ioaware.case import Work
from ioaware.cases import CASES, find_case
from ioaware.errors import UsageError
from ioaware.params import Param, resolve
from ioaware.result import ParamValue, Traffic
from ioaware.targets.loading import load_function
from ioaware.targets.signature import Argument, arguments_of, takes_device


@dataclass(frozen=True)
class Target:
    """A named thing to study, its declared parameters, and how to start it.

    The function of a target takes its parameters by keyword, builds its inputs and launches. With a parameter `device` it is
    told where to allocate. If it returns a callable (or a `Work`), building was outside and the call is the work; otherwise
    the whole function is the work.
    """

    name: str
    params: tuple[Param, ...] | tuple[Argument, ...]
    call: Callable[..., object]
    """Takes `device` and the resolved parameters, returns what the function returned."""

    def resolve(self, given: Mapping[str, ParamValue], *, typed: bool = False) -> dict[str, ParamValue]:
        """All parameters, defaults filled in, every value checked; with `typed` they are a user's text.

        Raises `UsageError` for one that is unknown, missing or cannot work.
        """
        return resolve(self.params, given, self.name, typed=typed)

    def build(self, *, device: str, **params: ParamValue) -> Work:
        """Builds the inputs on `device` and returns the work. A function that is all work is run once to find that out."""
        outcome = self.call(device=device, **params)
        work = work_of(outcome)
        return work if work is not None else Work(run=lambda: self.call(device=device, **params))


def work_of(outcome: object) -> Work | None:
    """What a target's function returned, as the work left to do; None when it has done everything already."""
    if isinstance(outcome, Work):
        return outcome
    return Work(run=outcome) if callable(outcome) else None


def compulsory_bytes(target: str, params: Mapping[str, ParamValue]) -> Traffic | None:
    """The floor that a case's theory knows at resolved parameters; None for a target that is no case."""
    if target not in CASES:
        return None
    from ioaware.analysis.formulas.evaluate import evaluate
    from ioaware.analysis.theory.counting import B, H
    from ioaware.analysis.theory.lower_bounds import compulsory

    floor, values = compulsory(bool(params.get("causal"))), CASES[target].values(params)
    return Traffic(evaluate(B * H * floor.reads.bytes, values), evaluate(B * H * floor.writes.bytes, values))


def load_target(spec: str | Callable[..., Any]) -> Target:
    """The target of a case name, `path/to/file.py:function`, `module:function`, or a Python function itself.

    Raises `UsageError`, exit code 2, when there is none such or its module cannot be imported.
    """
    if isinstance(spec, str):
        if spec in CASES or ":" not in spec:
            return _case(spec)
        return _function(spec, load_function(spec))
    module, name = getattr(spec, "__module__", "?"), getattr(spec, "__qualname__", type(spec).__name__)
    return _function(f"{module}:{name}", spec)


def _case(name: str) -> Target:
    if name.endswith(".py"):
        raise UsageError(f"{name} names a file and no function", f"Say which function: {name}:function")
    case = find_case(name)
    return Target(case.name, case.params, case.build)


def _function(name: str, function: Callable[..., Any]) -> Target:
    kinds: list[type] = type.mro(type(function))
    if any("triton.runtime" in kind.__module__ for kind in kinds):
        raise UsageError(
            f"{name} is a Triton kernel", "A target is the host function that allocates its arguments and launches it."
        )
    if not callable(function) or inspect.isclass(function):
        raise UsageError(f"{name} is not a function", "A target is a function that launches Triton kernels.")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        kind = "coroutine" if inspect.iscoroutinefunction(function) else "generator"
        raise UsageError(
            f"{name} runs nothing when it is called: it is a {kind}",
            "A target launches its kernels when called, or returns the callable that does.",
        )
    arguments = arguments_of(function, name)
    wants_device = takes_device(function)

    def call(*, device: str, **params: ParamValue) -> object:
        values = _values(arguments, params)
        return function(**values, device=device) if wants_device else function(**values)

    return Target(name, arguments, call)


def _values(arguments: Iterable[Argument], params: Mapping[str, ParamValue]) -> dict[str, Any]:
    return {argument.name: argument.value(params[argument.name]) for argument in arguments if argument.name in params}
