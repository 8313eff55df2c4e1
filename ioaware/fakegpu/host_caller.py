"""Tell host code from the libraries that it calls.

What differs from run to run (clock, random numbers, addresses) is answered to host code alone.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import filterfalse
from operator import is_
from pathlib import Path
from types import CodeType
from typing import Any

import mpmath
import numpy as np
import sympy
import torch
import triton

_imported = (torch, triton, np, sympy, mpmath)
_imported_later = (
    *("jinja2", "networkx"),  # by torch's compiler when it runs
    *("numba", "llvmlite", "msgspec", "click", "rich"),  # by ioaware
    *("_pytest", "pytest", "pluggy", "hypothesis", "execnet", "xdist"),  # by tests, around what they derive
)
_found = tuple(map(importlib.util.find_spec, _imported_later))
PACKAGES = (
    *(Path(str(module.__file__)).parent for module in _imported),
    *(Path(spec.origin).parent for spec in _found if spec and spec.origin),
    Path(__file__).parent.parent,
)
_standard = sysconfig.get_path("stdlib")
_installed = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))


@lru_cache(maxsize=16_384)
def is_library(path: str) -> bool:
    """Return whether a file is of a library that is no host code.

    These are Python, torch, Triton and ioaware with their packages, and test tools.
    """
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


def other_threads() -> frozenset[int]:
    """Return the identities of the threads beside the caller's.

    They are no host code: those of a notebook ask for the process's parent, and end the notebook where it changes.
    """
    return frozenset(sys._current_frames()) - {threading.get_ident()}  # pyright: ignore[reportPrivateUsage]


def host_modules(names: Iterable[str] | None = None) -> list[Any]:
    """Return the modules of host code that are loaded, or those of some names."""
    if names is not None:
        return _of_host_code([sys.modules[name] for name in names])
    loaded = tuple(sys.modules.values())
    before, found = _last.get(len(loaded), ((), []))
    if not before or not all(map(is_, before, loaded)):  # a run begins with ten questions for the same modules
        if len(_last) == MOST_KEPT:
            _last.clear()
        found = _of_host_code(loaded)
        _last[len(loaded)] = loaded, found
    return list(found)


MOST_KEPT = 4
_last: dict[int, tuple[tuple[Any, ...], list[Any]]] = {}
"""All modules when `host_modules` last looked at so many, and those of host code.

Why not the last alone: a run has a few modules of its own, and the next one begins without them.
"""


def _of_host_code(modules: Sequence[Any]) -> list[Any]:
    return [module for module in outside_libraries(modules) if isinstance(_file(module), str)]


def outside_libraries(modules: Sequence[Any]) -> list[Any]:
    """Return the modules that are of no library, with those that name no file.

    Why: each run looks at thousands of modules several times. Those of libraries are passed over without Python code.
    """
    by_id = dict(zip(map(id, modules), modules, strict=True))
    unknown = [by_id[number] for number in filterfalse(_libraries.__contains__, by_id)]
    found: list[Any] = []
    for module in unknown:
        path = _file(module)
        if isinstance(path, str) and is_library(path):
            _libraries[id(module)] = module
        else:
            found.append(module)
    return found


def _file(module: Any) -> object:
    return getattr(module, "__dict__", _NO_NAMES).get("__file__")


_libraries: dict[int, Any] = {}
"""Modules of libraries by identity, kept so that no other object has it."""
_NO_NAMES: Mapping[str, Any] = {}
