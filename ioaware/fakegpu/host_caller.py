"""Tell host code from the libraries that it calls.

What differs from run to run (clock, random numbers, addresses) is answered to host code alone.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, cast

import numpy as np
import sympy
import torch
import triton

from ioaware._monkeypatch import Patches

PACKAGES = (*(Path(str(module.__file__)).parent for module in (torch, triton, np, sympy)), Path(__file__).parent.parent)
_standard = sysconfig.get_path("stdlib")
_installed = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))


@lru_cache(maxsize=16_384)
def is_library(path: str) -> bool:
    """Return whether a file is of Python, torch, Triton, NumPy, SymPy or ioaware."""
    if path.startswith("<frozen") or any(path.startswith(f"{package}/") for package in PACKAGES):
        return True
    return path.startswith(f"{_standard}/") and not path.startswith(_installed)


def calling_code(through: Collection[str] = ()) -> CodeType:
    """Return the code that calls the caller of the calling function.

    Files in `through` act for their own caller, and are passed over.
    """
    caller: Any = sys._getframe(3)  # pyright: ignore[reportPrivateUsage]
    while caller.f_back is not None and caller.f_code.co_filename in through:
        caller = caller.f_back
    return caller.f_code


def host_modules() -> list[Any]:
    """Return the modules of host code that are loaded."""
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return [sys.modules[name] for name, path in files.items() if isinstance(path, str) and not is_library(path)]


@contextmanager
def replaced_names(replaced: Mapping[Any, Any], owners: Sequence[Any]) -> Generator[Patches]:
    """Replace functions and classes inside the block.

    They are replaced under all names in host code and `owners`. What host code imports meanwhile has the old ones afterwards.
    The value takes further replacements.
    """
    before = set(sys.modules)
    try:
        with Patches() as patches:
            for owner in (*host_modules(), *owners):
                for name, new in _named(owner, replaced):
                    patches.set(owner, name, new)
            yield patches
    finally:
        plain = {new: old for old, new in replaced.items()}
        for owner in host_modules():
            for name, old in _named(owner, plain) if owner.__name__ not in before else ():
                setattr(owner, name, old)


def _named(owner: Any, replaced: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Return the names of a module whose values are replaced, with the new values."""
    names = cast("dict[str, Any]", vars(owner))
    kinds = (type, BuiltinFunctionType, FunctionType)
    return [(name, replaced[value]) for name, value in names.items() if isinstance(value, kinds) and value in replaced]
