"""Restore what host code caches under a fake GPU before the next run.

Libraries cache in module-level dictionaries, in the closures and attributes of functions, and with `functools.lru_cache`:
workspaces, compiled kernels, properties of the GPU. After a run these hold tensors without memory, or on the CPU.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import filterfalse
from operator import is_
from types import CellType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ioaware.targets.loading import is_library, own_arguments

Undo = Callable[[], None]
LRU_CACHE: Any = type(functools.lru_cache(len))
CONTAINERS = (dict, list, set)
SAVED = (*CONTAINERS, LRU_CACHE, FunctionType)
COMPILED = ("__compiled_fn_", "__resume_at_", "__builtins_dict__", "__import_")
"""Beginnings of the names that dynamo gives to its variables in a user's module.

It removes them itself.
"""
UNTOUCHED = ("ioaware", "__main__", "conftest", "_pytest", "pytest")


@contextmanager
def module_state_restored() -> Generator[None]:
    """Restore module state when the block ends.

    It is variables and caches of user modules and third-party libraries.

    `sys.argv` has no arguments meanwhile.
    """
    undo: list[Undo] = []
    seen: set[int] = set()
    loaded = tuple(sys.modules.values())
    modules = dict(zip(map(id, loaded), loaded, strict=True))
    for number in list(filterfalse(_of_libraries.__contains__, modules)):  # thousands are passed over without Python code
        if _may_cache(modules[number]):
            _save_module(modules[number], undo, seen)
    try:
        with own_arguments(sys.argv[0]):
            yield
    finally:
        for restore in reversed(undo):
            restore()


def _may_cache(module: object) -> bool:
    """Return whether a module uses torch or Triton and is the user's.

    It is not theirs, Python's or this package's.
    """
    if not isinstance(module, ModuleType):
        return False
    file = vars(module).get("__file__")
    if module.__name__.partition(".")[0] in UNTOUCHED or (isinstance(file, str) and is_library(file)):
        _of_libraries[id(module)] = module
        return False
    if not isinstance(file, str) or _without_torch.get(module) == len(vars(module)):
        return False
    values = list(vars(module).values())
    if any(_package(value) in ("torch", "triton") for value in values):
        return True
    _without_torch[module] = len(values)
    return False


_of_libraries: dict[int, ModuleType] = {}
"""Modules of libraries by identity, kept so that no other object has it."""
_without_torch: WeakKeyDictionary[ModuleType, int] = WeakKeyDictionary()
"""Modules that use neither, with how many names they had."""


def stays(name: object, value: object) -> bool:
    """Return whether a new variable of a module stays.

    A submodule does, an attribute of its package, and what dynamo compiled.
    """
    return isinstance(value, ModuleType) or is_compiled(name)


def is_compiled(name: object) -> bool:
    """Return whether dynamo gave this name to a variable."""
    return isinstance(name, str) and name.startswith(COMPILED)


def _package(value: object) -> str:
    """Return the package of a module, or that a function or class is from."""
    name: Any = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return name.partition(".")[0] if isinstance(name, str) else ""


def _save_module(module: ModuleType, undo: list[Undo], seen: set[int]) -> None:
    names = vars(module)
    before = dict(names)

    def restore() -> None:
        if list(names) == list(before) and all(map(is_, names.values(), before.values())):
            return  # as nearly every module
        for name, value in before.items():
            if names.get(name) is not value:
                names[name] = value
        for name in [name for name, value in names.items() if name not in before and not stays(name, value)]:
            del names[name]

    undo.append(restore)
    for value in before.values():
        if isinstance(value, SAVED):
            _save_value(value, undo, seen)


def _save_value(value: Any, undo: list[Undo], seen: set[int]) -> None:
    """Save a container's items, a cache, or the closure and attributes of a function."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if type(value) in CONTAINERS:
        undo.append(_container(value))
    elif isinstance(value, LRU_CACHE):
        if _package(value) != "ioaware":  # its own do not depend on the GPU
            value.cache_clear()
            undo.append(value.cache_clear)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            undo.extend(_cell(cell))
            _save_value(_contents(cell), undo, seen)
        undo.append(_container(vars(value)))


def _container(value: dict[Any, Any] | list[Any] | set[Any]) -> Undo:
    before: Any = value.copy()
    items: Any = value

    def restore() -> None:
        if isinstance(items, list):
            items[:] = before
        else:
            items.clear()
            items.update(before)

    return restore


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _cell(cell: CellType) -> Iterator[Undo]:
    before = _contents(cell)

    def restore() -> None:
        cell.cell_contents = before

    if before is not None or _is_assigned(cell):
        yield restore


def _is_assigned(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
