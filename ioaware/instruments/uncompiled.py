"""torch's fake tensors and symbolic shapes without torch.compile, whose machinery they load to look at a few of its settings.

That takes a second or more and moves no byte. While host code runs on tensors without memory, `torch._dynamo` is an object that
has the settings; whoever asks it for more, or imports it, gets the real one, and then it stays.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.fx.experimental import symbolic_shapes

from ioaware.instruments.patching import Patches

COMPILER, VALIDATOR = "torch._dynamo", "torch.fx.experimental.validator"
_torch: Any = torch


@contextmanager
def without_torch_compile() -> Generator[None]:
    """Inside the block `torch._dynamo` is its settings alone until somebody needs more, or has loaded it before."""
    if COMPILER in sys.modules:
        yield
        return
    stand_in = _torch._dynamo = _Settings()
    try:
        yield
    finally:
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


class _Settings:
    """Stands in for the package."""

    def __init__(self) -> None:
        self.config = _config()

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
