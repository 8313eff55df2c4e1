"""Fingerprint host code.

It covers its functions, everything they call, and the plain values they reach.
"""

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
    """The function holds a value with an unknown effect on it."""


def fingerprint(function: Callable[..., object]) -> Hashable:
    """Return a key that is equal for equal functions and equal reachable user code.

    None where unknown.

    The contents of objects in global variables and the state of libraries are not part of the key.
    """
    reader = _Reader()
    try:
        reader.add_function(function)
    except OpaqueHostCodeError:
        return None
    return tuple(reader.parts)


class _Reader:
    """Collects the parts of the key, visiting each object once."""

    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []

    def add_function(self, function: Any) -> None:
        """Add a function that is called.

        Its defaults, its closure and the globals it names are added too.
        """
        while isinstance(function, MethodType):
            self._add_value(function.__self__)
            function = function.__func__
        if not isinstance(function, FunctionType):
            raise OpaqueHostCodeError
        if self._first_time(function):
            code = function.__code__
            self.parts += [code.co_filename, code]
            for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
                self._add_value(value)
            for cell in function.__closure__ or ():
                self._add_value(cell.cell_contents)
            self._add_globals(_names(code), function.__globals__)

    def _first_time(self, value: Any) -> bool:
        new = id(value) not in self._seen
        self._seen.add(id(value))
        self._alive.append(value)  # keeps its id unique
        return new

    def _add_value(self, value: Any) -> None:
        """Add a value that the function holds.

        Raises `OpaqueHostCodeError` for an unknown kind.
        """
        if isinstance(value, torch.Tensor):
            self.parts.append((value.dtype, tuple(value.shape), value.stride(), str(value.device), value.requires_grad))
        elif isinstance(value, inspect.BoundArguments):
            self._add_value(list(value.arguments.items()))
        elif isinstance(value, (tuple, list)):
            self.parts.append(len(value))  # pyright: ignore[reportUnknownArgumentType]
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                self._add_value(item)
        elif isinstance(value, dict):
            self._add_value(list(value.items()))  # pyright: ignore[reportUnknownArgumentType]
        elif is_dataclass(value) and not isinstance(value, type):
            self._add_value([type(value), *(getattr(value, field.name) for field in fields(value))])
        elif not self._add_named(value):
            raise OpaqueHostCodeError

    def _add_globals(self, names: set[str], among: dict[str, Any]) -> None:
        for name in sorted(names & among.keys()):
            value = among[name]
            self.parts.append(name)
            if isinstance(value, ModuleType):
                if not _is_library(value) and self._first_time((value, *sorted(names))):
                    self._add_globals(names, vars(value))
            else:
                self._add_named(value)

    def _add_named(self, value: Any) -> bool:
        """Add a value found by name; return whether its kind is known."""
        if isinstance(value, PLAIN):
            self.parts.append((type(value), value))
        elif isinstance(value, (FunctionType, MethodType)):
            self._add_code(value)
        elif isinstance(value, type):
            self.parts.append(f"{value.__module__}.{value.__qualname__}")
            module = sys.modules.get(value.__module__)
            if not (module and _is_library(module)) and self._first_time(value):
                for name, member in sorted(vars(value).items()):
                    self.parts.append(name)
                    self._add_named(getattr(member, "__func__", member))
        elif isinstance(inner := getattr(value, "fn", None), FunctionType):  # a kernel or its autotuner
            self._add_code(inner)
        elif isinstance(value, (tuple, frozenset)) and all(isinstance(item, PLAIN) for item in value):  # pyright: ignore[reportUnknownVariableType]
            self.parts.append(value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            return False
        return True

    def _add_code(self, function: Any) -> None:
        inner: Any = inspect.unwrap(function)
        inner = getattr(inner, "__func__", inner)
        if isinstance(inner, FunctionType) and not is_library(inner.__code__.co_filename):
            try:
                self.add_function(function)
            except OpaqueHostCodeError:
                self.parts.append("opaque")


def _is_library(module: ModuleType) -> bool:
    return is_library(getattr(module, "__file__", None) or "<built in>")


def _names(code: CodeType) -> set[str]:
    """Return the names that a function and its nested functions look up."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
