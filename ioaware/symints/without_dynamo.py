"""torch's fake tensors and symbolic shapes without torch.compile, whose machinery they load to look at a few of its settings.

That takes a second or more and moves no byte. While host code runs on tensors without memory, `torch._dynamo` is an object that
has the settings; whoever asks it for more, or imports it, gets the real one, and then it stays.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._guards import Source
from torch.fx.experimental import symbolic_shapes

from ioaware._monkeypatch import Patches

COMPILER, SOURCES, VALIDATOR = "torch._dynamo", "torch._dynamo.source", "torch.fx.experimental.validator"
REMEMBERED = "__dynamo_disable"
_torch: Any = torch


@contextmanager
def without_torch_compile() -> Generator[None]:
    """Inside the block `torch._dynamo` is its settings alone until somebody needs more, or has loaded it before."""
    if COMPILER in sys.modules:
        yield
        return
    stand_in = _torch._dynamo = _Settings()
    sources = sys.modules[SOURCES] = _Sources(SOURCES)
    plain = builtins.__import__

    def imported(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == COMPILER and vars(torch).get("_dynamo") is stand_in and not any(args[2:3]) and not kwargs.get("fromlist"):
            return torch  # as `import torch._dynamo` does, which asks for `torch._dynamo` next
        return plain(name, *args, **kwargs)

    try:
        with Patches() as patches:
            patches.set(builtins, "__import__", imported)
            yield
    finally:
        stand_in.forget()
        if sys.modules.get(SOURCES) is sources:
            del sys.modules[SOURCES]
        if vars(torch).get("_dynamo") is stand_in:
            del _torch._dynamo


@contextmanager
def bare_shapes() -> Generator[None]:
    """Inside the block torch's keepers of symbolic shapes and their symbols are made without what else these would load: a
    prover of guards, which here are only recorded, and a log of where each symbol comes from."""
    absent = VALIDATOR not in sys.modules
    if absent:
        stand_in: Any = ModuleType(VALIDATOR)
        stand_in.translation_validation_enabled = bool
        sys.modules[VALIDATOR] = stand_in
    try:
        with Patches() as patches:
            patches.set(symbolic_shapes, "trace_structured", lambda *_, **__: None)  # pyright: ignore[reportUnknownLambdaType]
            yield
    finally:
        if absent:
            del sys.modules[VALIDATOR]


@dataclass(frozen=True)
class Named(Source):
    """Where a symbol or a tensor comes from, for torch's own use: it wants a name."""

    what: str

    @property
    def _name_template(self) -> str:
        return self.what

    if callable(vars(Source)["name"]):  # a method in older torch, since 2.12 a property made of the template

        def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
            """What it was named."""
            return self.what


class _Sources(ModuleType):
    """Stands in for the package's names of sources, which torch asks for where host code has made a tensor with data."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what an import asks of every module
            raise AttributeError(name)
        if COMPILER not in sys.modules:
            if name == "ConstantSource":
                return Named
            if name == "RandomValueSource":
                return _NoSource
        if sys.modules.get(SOURCES) is self:
            del sys.modules[SOURCES]
        return getattr(importlib.import_module(SOURCES), name)


class _NoSource:
    """Nothing is one."""


class _Settings:
    """Stands in for the package."""

    def __init__(self) -> None:
        self.config = _config()
        self._left_alone: list[Any] = []

    def disable(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """What torch calls its own operators by: while nothing is compiled, the operator itself, which torch then remembers."""
        if kwargs.get("wrapping") is not False:
            return self.__getattr__("disable")(function, *args, **kwargs)
        self._left_alone.append(function)
        return function

    def forget(self) -> None:
        """Lets torch ask again."""
        for function in self._left_alone:
            if getattr(function, REMEMBERED, None) is function:
                delattr(function, REMEMBERED)

    def __getattr__(self, name: str) -> Any:
        if vars(torch).get("_dynamo") is self:
            del _torch._dynamo
        return getattr(importlib.import_module(COMPILER), name)


@cache
def _config() -> ModuleType:
    """torch.compile's own settings, those that it will have if it is loaded later, without the rest of its package."""
    package = ModuleType(COMPILER)
    package.__path__ = [str(Path(torch.__file__).parent / "_dynamo")]
    sys.modules[COMPILER] = package
    try:
        return importlib.import_module(f"{COMPILER}.config")
    finally:
        del sys.modules[COMPILER]
