"""Tell host code from the libraries that it calls.

What differs from run to run (clock, random numbers, addresses) is answered to host code alone.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import filterfalse
from operator import is_
from pathlib import Path
from types import CodeType
from typing import Any, cast

import mpmath
import numpy as np
import sympy
import torch
import triton

from ioaware._monkeypatch import Patches

_imported = (torch, triton, np, sympy, mpmath)
_of_the_compiler = tuple(map(importlib.util.find_spec, ("jinja2", "networkx")))  # torch's compiler imports them when it runs
PACKAGES = (
    *(Path(str(module.__file__)).parent for module in _imported),
    *(Path(spec.origin).parent for spec in _of_the_compiler if spec and spec.origin),
    Path(__file__).parent.parent,
)
_standard = sysconfig.get_path("stdlib")
_installed = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))


@lru_cache(maxsize=16_384)
def is_library(path: str) -> bool:
    """Return whether a file is of Python, torch and its packages, Triton or ioaware."""
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


def host_modules() -> list[Any]:
    """Return the modules of host code that are loaded."""
    loaded = tuple(sys.modules.values())
    before, found = _last
    if len(before) != len(loaded) or not all(map(is_, before, loaded)):  # a run begins with ten questions for the same modules
        found = _of_host_code(loaded)
        _last[:] = loaded, found
    return list(found)


_last: list[Any] = [(), []]
"""All modules when `host_modules` last looked at them, and those of host code."""


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


@contextmanager
def one_look() -> Generator[Callable[[], None]]:
    """Look through the names of host code once for all replacements.

    No host code may run before the value is called, which ends this.

    Why: a run begins with six replacements, and few modules have any of these names.
    """
    token = _look.set([])

    def end() -> None:
        _look.set(None)

    try:
        yield end
    finally:
        _look.reset(token)


_look: ContextVar[list[list[Any]] | None] = ContextVar("look", default=None)
"""Modules of host code that have names of `_replaceable` values.

Empty before the first look, None outside `one_look`.
"""
_replaceable: set[int] = set()
"""Identities of the values that were replaced inside `one_look`."""


def _modules_with(values: Set[int]) -> list[Any]:
    """Return the modules of host code that may have names of these values.

    The values are given by identity.
    """
    look = _look.get()
    if look is None:
        return host_modules()
    if not values <= _replaceable:
        _replaceable.update(values)
        look.clear()
    if not look:
        look.append([module for module in host_modules() if not _replaceable.isdisjoint(map(id, _names_of(module).values()))])
    return look[0]


@contextmanager
def replaced_names(replaced: Mapping[Any, Any], owners: Sequence[Any]) -> Generator[Patches]:
    """Replace functions and classes inside the block.

    They are replaced under all names in host code and `owners`. What host code imports meanwhile has the old ones afterwards.
    The value takes further replacements.
    """
    before = _last_import()
    try:
        with Patches() as patches:
            new_values = {id(old): new for old, new in replaced.items()}
            for owner in (*_modules_with(new_values.keys()), *owners):
                for name, new in _named(owner, new_values):
                    patches.set(owner, name, new)
            yield patches
    finally:
        old_values = {id(new): old for old, new in replaced.items()}
        for owner in host_modules() if before != _last_import() else ():
            for name, old in _named(owner, old_values):
                setattr(owner, name, old)


def _last_import() -> tuple[int, str]:
    """Return what changes where a module is imported.

    That is how many there are, and the name of the last.
    """
    return len(sys.modules), next(reversed(sys.modules))


def _named(owner: Any, values: Mapping[int, Any]) -> list[tuple[str, Any]]:
    """Return the names in a module of values by identity, with the new ones."""
    names = _names_of(owner)
    if values.keys().isdisjoint(map(id, names.values())):  # as in nearly every module
        return []
    return [(name, values[id(value)]) for name, value in names.items() if id(value) in values]


def _names_of(owner: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", vars(owner))
