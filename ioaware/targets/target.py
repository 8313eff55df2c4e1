"""Represent the targets of the verbs.

A target is a case of this package, or any function that launches Triton kernels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware.case import Work
from ioaware.cases import CASES, find_case
from ioaware.errors import UsageError
from ioaware.params import Param, resolve
from ioaware.result import ParamValue, Traffic
from ioaware.targets.generated_call import (
    check_sizes,
    generated_inputs,
    generated_work,
    in_order,
    input_arguments,
    is_generated_call,
)
from ioaware.targets.loading import folder_of, load_function
from ioaware.targets.sibling_modules import ImportingFrom, own_siblings
from ioaware.targets.signature import Argument, arguments_of, takes_device
from ioaware.targets.tensor_params import parse_tensor, split_tensors

if TYPE_CHECKING:
    from triton.backends.compiler import GPUTarget


@dataclass(frozen=True)
class Target:
    """Name, declared parameters, and the function to call.

    The function takes its parameters by keyword, builds its inputs and launches kernels. A parameter `device` receives the
    device to allocate on. If the function returns a callable (or a `Work`), that call is the work and building the inputs is
    not part of it. Otherwise the whole function is the work.
    """

    name: str
    params: tuple[Param, ...] | tuple[Argument, ...]
    call: Callable[..., object]
    """Called with `device` and the resolved parameters.

    Returns the function's return value.
    """

    def resolve(self, given: Mapping[str, ParamValue], *, typed: bool = False) -> dict[str, ParamValue]:
        """Return all parameters with defaults, every value checked.

        With `typed` the given ones are text.

        A function's parameter may be a tensor in text, `f16[rows=4096, cols=2048]`: its named sizes are parameters too. Raises
        `UsageError` for a parameter that is unknown, missing or invalid.
        """
        if self.name in CASES:
            return resolve(self.params, given, self.name, typed=typed)
        own, sizes = split_tensors(given, [param.name for param in self.params])
        return {**resolve(self.params, own, self.name, typed=typed), **sizes}

    def build(self, *, device: str, **params: ParamValue) -> Work:
        """Build the inputs on `device` and return the work.

        A function that returns no callable runs once here.
        """
        outcome = self.call(device=device, **params)
        work = work_of(outcome)
        return work if work is not None else Work(run=lambda: self.call(device=device, **params))


def work_of(outcome: object) -> Work | None:
    """Return a function's return value as the work to run; None if it is no callable."""
    if isinstance(outcome, Work):
        return outcome
    return Work(run=outcome) if callable(outcome) else None


def compulsory_bytes(target: str, params: Mapping[str, ParamValue]) -> Traffic | None:
    """Return the compulsory bytes of a case at resolved parameters.

    None for other targets.
    """
    if target not in CASES:
        return None
    from ioaware.analysis.formulas.evaluate import evaluate
    from ioaware.analysis.theory.lower_bounds import compulsory

    causal = bool(params.get("causal"))
    counts, values = CASES[target].counts(causal), CASES[target].values(params)
    floor = counts.compulsory or compulsory(causal)
    reads, writes = (evaluate(counts.instances * side.bytes, values) for side in (floor.reads, floor.writes))
    return Traffic(reads, writes)


def load_target(spec: str | Callable[..., Any], gpu: GPUTarget | None = None) -> Target:
    """Return the target of a name or function.

    It is a case name, `file.py:function`, `module:function`, or a Python function. A module that asks for the GPU while it is
    imported sees `gpu`, where it is given.

    Raises `UsageError`, exit code 2, when it does not exist or its module cannot be imported.
    """
    if isinstance(spec, str):
        if spec in CASES or ":" not in spec:
            return _case(spec)
        return _function(spec, _imported(spec, gpu), folder_of(spec))
    module, name = getattr(spec, "__module__", "?"), getattr(spec, "__qualname__", type(spec).__name__)
    return _function(f"{module}:{name}", spec)


def _imported(spec: str, gpu: GPUTarget | None) -> Callable[..., Any]:
    if gpu is None:
        return load_function(spec)
    from ioaware.fakegpu.cuda_stand_in import imports_see

    with imports_see(gpu):
        return load_function(spec)


def _case(name: str) -> Target:
    if name.endswith(".py"):
        raise UsageError(f"{name} names a file and no function", f"Name the function: {name}:function")
    case = find_case(name)
    return Target(case.name, case.params, case.build)


def _function(name: str, function: Callable[..., Any], folder: str = "") -> Target:
    """Return a function as a target.

    Its imports when called are from `folder`, if one is given.
    """
    kinds: list[type] = type.mro(type(function))
    if any("triton.runtime" in kind.__module__ for kind in kinds):
        raise UsageError(
            f"{name} is a Triton kernel", "A target is the host function that allocates its arguments and launches it."
        )
    if inspect.isclass(function) and hasattr(function, "named_parameters"):  # a torch module
        return _module(name, function, folder)
    if not callable(function) or inspect.isclass(function):
        raise UsageError(f"{name} is not a function", "A target is a function that launches Triton kernels.")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        kind = "coroutine" if inspect.iscoroutinefunction(function) else "generator"
        raise UsageError(
            f"{name} runs nothing when it is called: it is a {kind}",
            "A target launches its kernels when called, or returns the callable that does.",
        )
    if is_generated_call(function):
        return _generated(name, function)
    arguments = arguments_of(function, name)
    wants_device = takes_device(function)

    def call(*, device: str, **params: ParamValue) -> object:
        values, tensors = _values(arguments, params), _tensors(arguments, params, device)
        values |= tensors
        if wants_device:
            values["device"] = device
        if tensors:  # made here, so that making them is no work
            return _work_in(folder, Work(lambda: function(**values), arguments=tensors))
        with _imports_from(folder):
            outcome = function(**values)
        return outcome if (work := work_of(outcome)) is None else _work_in(folder, work)

    return Target(name, arguments, call)


def _generated(name: str, function: Callable[..., Any]) -> Target:
    """Return a file of torch's compiler as a target.

    Its inputs are those that the file makes. Where it makes none, they are parameters by their names in its code.
    """
    if (inputs := generated_inputs(function)) is not None:

        def call_with_its_own(**_: object) -> object:
            return generated_work(function, inputs())

        return Target(name, (), call_with_its_own)
    arguments = input_arguments(function, name)
    check_sizes(function)

    def call(*, device: str, **params: ParamValue) -> object:
        tensors = _tensors(arguments, params, device)
        work = generated_work(function, in_order(arguments, _values(arguments, params) | tensors))
        return Work(work, arguments=tensors)

    return Target(name, arguments, call)


@contextmanager
def _imports_from(folder: str) -> Generator[None]:
    """Let host code import its neighbours, which are in `folder`.

    Nothing changes where there is none.
    """
    with own_siblings(Path(folder)) if folder else nullcontext():
        yield


def _work_in(folder: str, work: Work) -> Work:
    """Return the work with the neighbours that it imports."""
    return replace(work, run=ImportingFrom(folder, work.run)) if folder else work


def _module(name: str, kind: Callable[..., Any], folder: str = "") -> Target:
    """Return a torch module's forward pass as a target.

    Its parameters are those of its constructor and its forward method.

    The module's own floating-point parameters have the type of the first such tensor among the inputs.
    """
    construction = arguments_of(kind, name)
    forward: Any = kind.forward  # pyright: ignore[reportFunctionMemberAccess]
    inputs = tuple(argument for argument in arguments_of(forward, name) if argument.name != "self")
    made = {argument.name for argument in construction}
    wants_device = takes_device(kind)

    def call(*, device: str, **params: ParamValue) -> object:
        import torch

        tensors = _tensors(inputs, params, device)
        options: dict[str, Any] = {"device": device} if wants_device else {}
        with torch.device(device), _imports_from(folder):
            module: Any = kind(**_values(construction, params), **_tensors(construction, params, device), **options)
        floating = [tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()]
        if floating and "dtype" not in made:
            module = module.to(floating[0])
        values = _values(inputs, params) | tensors
        return _work_in(folder, Work(lambda: module(**values), arguments=tensors))

    return Target(name, (*construction, *(argument for argument in inputs if argument.name not in made)), call)


def _values(arguments: Iterable[Argument], params: Mapping[str, ParamValue]) -> dict[str, Any]:
    """Return the arguments for the parameters that are not tensors."""
    return {
        argument.name: argument.value(params[argument.name])
        for argument in arguments
        if argument.name in params and parse_tensor(params[argument.name]) is None
    }


def _tensors(arguments: Iterable[Argument], params: Mapping[str, ParamValue], device: str) -> dict[str, Any]:
    """Return the tensors among the parameters, made on `device`."""
    parsed = {argument.name: parse_tensor(params[argument.name]) for argument in arguments if argument.name in params}
    return {name: tensor[0].make(params, device) for name, tensor in parsed.items() if tensor is not None}
