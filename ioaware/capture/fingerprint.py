"""What host code is made of, to tell whether it is still the code that was run before: functions by their code, all that they
call with them, and the plain values that they see."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from ioaware.targets.loading import is_library

PLAIN = (str, bytes, int, float, bool, complex, type(None), torch.dtype, torch.device)


class OpaqueHostCodeError(Exception):
    """The function holds on to something of which nobody knows how it decides what the function does."""


def fingerprint(function: Callable[..., object]) -> Hashable:
    """Equal where the function and the user's code that it can reach by name are equal; None where that cannot be said.

    What objects in global variables hold is not part of it, nor the state of libraries.
    """
    reader = _Reader()
    try:
        reader.function(function)
    except OpaqueHostCodeError:
        return None
    return tuple(reader.parts)


class _Reader:
    """Visits everything once."""

    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []

    def function(self, function: Any) -> None:
        """One that is run, with what it was made with and the globals that it names."""
        while isinstance(function, MethodType):
            self._held(function.__self__)
            function = function.__func__
        if not isinstance(function, FunctionType):
            raise OpaqueHostCodeError
        if self._first_time(function):
            code = function.__code__
            self.parts += [code.co_filename, code]
            for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
                self._held(value)
            for cell in function.__closure__ or ():
                self._held(cell.cell_contents)
            self._globals(_names(code), function.__globals__)

    def _first_time(self, value: Any) -> bool:
        new = id(value) not in self._seen
        self._seen.add(id(value))
        self._alive.append(value)  # so that no other is given its identity
        return new

    def _held(self, value: Any) -> None:
        """What a function holds on to decides what it does: all of it has to be understood."""
        if isinstance(value, torch.Tensor):
            self.parts.append((value.dtype, tuple(value.shape), value.stride(), str(value.device), value.requires_grad))
        elif isinstance(value, inspect.BoundArguments):
            self._held(list(value.arguments.items()))
        elif isinstance(value, (tuple, list)):
            self.parts.append(len(value))  # pyright: ignore[reportUnknownArgumentType]
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                self._held(item)
        elif isinstance(value, dict):
            self._held(list(value.items()))  # pyright: ignore[reportUnknownArgumentType]
        elif is_dataclass(value) and not isinstance(value, type):
            self._held([type(value), *(getattr(value, field.name) for field in fields(value))])
        elif not self._known(value):
            raise OpaqueHostCodeError

    def _globals(self, names: set[str], among: dict[str, Any]) -> None:
        for name in sorted(names & among.keys()):
            value = among[name]
            self.parts.append(name)
            if isinstance(value, ModuleType):
                if not _is_library(value) and self._first_time((value, *sorted(names))):
                    self._globals(names, vars(value))
            else:
                self._known(value)

    def _known(self, value: Any) -> bool:
        """A value that has a name: whether it was understood."""
        if isinstance(value, PLAIN):
            self.parts.append((type(value), value))
        elif isinstance(value, (FunctionType, MethodType)):
            self._code(value)
        elif isinstance(value, type):
            self.parts.append(f"{value.__module__}.{value.__qualname__}")
            module = sys.modules.get(value.__module__)
            if not (module and _is_library(module)) and self._first_time(value):
                for name, member in sorted(vars(value).items()):
                    self.parts.append(name)
                    self._known(getattr(member, "__func__", member))
        elif isinstance(inner := getattr(value, "fn", None), FunctionType):  # a kernel, a tuner of one
            self._code(inner)
        elif isinstance(value, (tuple, frozenset)) and all(isinstance(item, PLAIN) for item in value):  # pyright: ignore[reportUnknownVariableType]
            self.parts.append(value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            return False
        return True

    def _code(self, function: Any) -> None:
        inner: Any = inspect.unwrap(function)
        inner = getattr(inner, "__func__", inner)
        if isinstance(inner, FunctionType) and not is_library(inner.__code__.co_filename):
            try:
                self.function(function)
            except OpaqueHostCodeError:
                self.parts.append("opaque")


def _is_library(module: ModuleType) -> bool:
    return is_library(getattr(module, "__file__", None) or "<built in>")


def _names(code: CodeType) -> set[str]:
    """The names that a function and those inside it look up."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
