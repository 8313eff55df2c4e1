"""Use torch's fake tensors and symbolic shapes without torch._dynamo.

Importing that takes a second or more.

While host code runs on fake tensors, `torch._dynamo` is a stand-in with only the configuration. Any other access, or an import,
loads the real package, which then stays.
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
CACHED_RESULT = "__dynamo_disable"
_torch: Any = torch


@contextmanager
def without_torch_compile() -> Generator[None]:
    """Replace `torch._dynamo` by its configuration inside the block.

    Nothing is replaced if it is loaded already.
    """
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
            _drop_structured_log(patches)
            yield
    finally:
        stand_in.forget()
        if sys.modules.get(SOURCES) is sources:
            del sys.modules[SOURCES]
        if vars(torch).get("_dynamo") is stand_in:
            del _torch._dynamo


def _drop_structured_log(patches: Patches) -> None:
    """Write no log of symbols, for which torch would load the compiler."""
    patches.set(symbolic_shapes, "trace_structured", lambda *_, **__: None)  # pyright: ignore[reportUnknownLambdaType]


@contextmanager
def light_shape_env() -> Generator[None]:
    """Create `ShapeEnv`s and symbols with fewer imports inside the block.

    The guard validator and the structured trace are not loaded.

    Why: guards are only recorded here, and their log is not read.
    """
    absent = VALIDATOR not in sys.modules
    if absent:
        stand_in: Any = ModuleType(VALIDATOR)
        stand_in.translation_validation_enabled = bool
        sys.modules[VALIDATOR] = stand_in
    try:
        with Patches() as patches:
            _drop_structured_log(patches)
            yield
    finally:
        if absent:
            del sys.modules[VALIDATOR]


@dataclass(frozen=True)
class NamedSource(Source):
    """The source of a symbol or tensor: torch requires one with a name."""

    label: str

    @property
    def _name_template(self) -> str:
        return self.label

    if callable(vars(Source)["name"]):  # a method in older torch, since 2.12 a property made of the template

        def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
            """Return the label."""
            return self.label


class _Sources(ModuleType):
    """Stand-in for `torch._dynamo.source`.

    torch reads it where host code made a tensor with data.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # attributes that every import reads
            raise AttributeError(name)
        if COMPILER not in sys.modules:
            if name == "ConstantSource":
                return NamedSource
            if name == "RandomValueSource":
                return _EmptySource
        if sys.modules.get(SOURCES) is self:
            del sys.modules[SOURCES]
        return getattr(importlib.import_module(SOURCES), name)


class _EmptySource:
    """A source class without instances."""


class _Settings:
    """Stand-in for `torch._dynamo`."""

    def __init__(self) -> None:
        self.config = _config()
        self._undecorated: list[Any] = []

    def disable(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the operator itself, as `torch._dynamo.disable` without compilation.

        Torch caches the result.
        """
        if kwargs.get("wrapping") is not False:
            return self.__getattr__("disable")(function, *args, **kwargs)
        self._undecorated.append(function)
        return function

    def forget(self) -> None:
        """Clear what torch cached from `disable`."""
        for function in self._undecorated:
            if getattr(function, CACHED_RESULT, None) is function:
                delattr(function, CACHED_RESULT)

    def __getattr__(self, name: str) -> Any:
        if vars(torch).get("_dynamo") is self:
            del _torch._dynamo
        return getattr(importlib.import_module(COMPILER), name)


@cache
def _config() -> ModuleType:
    """Load `torch._dynamo.config` alone.

    A later import of the package uses the same module.
    """
    package = ModuleType(COMPILER)
    package.__path__ = [str(Path(torch.__file__).parent / "_dynamo")]
    sys.modules[COMPILER] = package
    try:
        return importlib.import_module(f"{COMPILER}.config")
    finally:
        del sys.modules[COMPILER]
