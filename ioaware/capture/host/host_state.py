"""Snapshot and restore the Python state that host code keeps between calls.

It is caches, flags and lazily built buffers.

Why: the host function is run several times, and each run must see the state of the first. Else a kernel that only the first
call launches, or a workspace that it allocates, would be missing from later runs.
"""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, cast

import torch

from ioaware.targets.loading import is_library
from ioaware.targets.module_state import is_compiled, stays

MAX_OBJECTS = 50_000
"""Most objects that a snapshot visits."""
MAX_ELEMENTS = 2**16
"""Most elements of a tensor whose contents are saved."""
OWN_DEPENDENCIES = frozenset({"ioaware", "sympy", "mpmath", "msgspec", "pytest", "_pytest", "hypothesis", "matplotlib"})
"""Packages whose state belongs to ioaware or to the test runner."""


class HostState:
    """The contents of all state that a host function reaches by name.

    They are those of containers, objects and closures.
    """

    def __init__(self, call: Any) -> None:
        """Save what `call` reaches.

        It is a target's call, and its closure holds the user's function.

        Lists in that function's closure are left alone: they are the user's own log.
        """
        self._contents: list[tuple[Any, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._caches: list[Any] = []
        self._tensors: list[tuple[Any, int, Any]] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        pending: deque[Any] = deque(_closure(call))
        self._seen |= {id(value) for function in pending for value in _closure(function) if _is_list(value)}
        while pending and len(self._seen) < MAX_OBJECTS:
            pending.extend(self._visit(pending.popleft()))

    def restore(self) -> None:
        """Put back the contents of everything that changed since the snapshot.

        `functools` caches are cleared.
        """
        for cache in self._caches:
            cache.cache_clear()
        for cell, value in self._cells:
            if not _is_filled(cell) or cell.cell_contents is not value:
                cell.cell_contents = value
        for tensor, version, contents in self._tensors:
            if tensor._version != version:
                with torch.no_grad():
                    tensor.data.copy_(contents)
        for container, contents in self._contents:
            if not _same(container, contents):
                _refill(container, contents)

    def _visit(self, value: Any) -> Iterable[Any]:
        """Save the contents of a value; return what to visit next."""
        if isinstance(value, (str, bytes, int, float, type(None))) or id(value) in self._seen:
            return ()
        self._seen.add(id(value))
        self._alive.append(value)  # keeps its id unique
        if isinstance(value, FunctionType):
            return self._visit_function(value)
        if _has(value, "cache_clear") and _has(value, "__wrapped__"):
            if is_user_module(getattr(value, "__module__", "")):
                self._caches.append(value)
            return [value.__wrapped__]
        if isinstance(value, (dict, list, set, deque)):
            return self._visit_container(cast("dict[Any, Any] | list[Any]", value))
        if isinstance(value, torch.Tensor):
            if value.numel() <= MAX_ELEMENTS and value.layout == torch.strided:
                self._tensors.append((value, value._version, value.detach().clone()))
            return ()
        if isinstance(value, (tuple, frozenset)):
            return list(cast("Iterable[Any]", value))
        if isinstance(value, MethodType):
            return [value.__self__, value.__func__]
        if isinstance(value, type):
            return self._visit_class(value)
        saved = is_user_module(value.__name__) if isinstance(value, ModuleType) else _has_user_state(value)
        return [vars(value)] if saved else []

    def _visit_function(self, function: FunctionType) -> Iterable[Any]:
        """Save the closure of a user's function.

        Return its attributes and the globals of its module.
        """
        if not is_user_module(function.__module__ or ""):
            return ()
        self._cells += [(cell, cell.cell_contents) for cell in function.__closure__ or () if _is_filled(cell)]
        return (function.__dict__, function.__globals__, *_closure(function))

    def _visit_container(self, container: dict[Any, Any] | list[Any]) -> Iterable[Any]:
        contents = container.copy()
        self._contents.append((container, contents))
        if isinstance(contents, dict):
            return [value for name, value in contents.items() if name != "__builtins__"]
        return list(contents)

    def _visit_class(self, kind: type) -> Iterable[Any]:
        """Save the attributes of a user's class."""
        if not is_user_module(kind.__module__):
            return ()
        attributes = dict(vars(kind))
        self._contents.append((kind, attributes))
        return [getattr(value, "__func__", value) for value in attributes.values()]


@contextmanager
def host_state_restored(call: Any) -> Generator[None]:
    """Restore the state that `call` reaches when the block ends."""
    state = HostState(call)
    try:
        yield
    finally:
        state.restore()


def _has(value: Any, name: str) -> bool:
    """Return whether an object has an attribute, without running its `__getattr__`."""
    return inspect.getattr_static(value, name, None) is not None


def is_user_module(name: str) -> bool:
    """Return whether a module is the user's.

    It is if it has a file outside Python, torch, Triton and ioaware.
    """
    file = getattr(sys.modules.get(name), "__file__", None)
    return isinstance(file, str) and not is_library(file) and name.partition(".")[0] not in OWN_DEPENDENCIES


def _has_user_state(value: Any) -> bool:
    """Return whether an object's attributes are saved.

    They are for users' classes, modules of torch, and namespaces.
    """
    if isinstance(value, (torch.nn.Module, SimpleNamespace)):
        return True
    return hasattr(value, "__dict__") and any(is_user_module(kind.__module__) for kind in type(value).__mro__[:-1])


def _same(container: Any, contents: Any) -> bool:
    """Return whether the container still holds the identical items in the same order."""
    if isinstance(container, type):
        return _same(dict(vars(container)), contents)
    if isinstance(container, dict) and any(map(is_compiled, cast("dict[Any, Any]", container))):
        now = cast("dict[Any, Any]", container)
        own: Any = {name: value for name, value in now.items() if not is_compiled(name) or name in contents}
        return _same(own, contents) if len(own) < len(now) else _same_items(now, contents)
    if len(container) != len(contents):  # pyright: ignore[reportUnknownArgumentType]
        return False
    if isinstance(container, dict):
        return _same_items(cast("dict[Any, Any]", container), contents)
    if isinstance(container, set):
        return {id(item) for item in cast("set[Any]", container)} == {id(item) for item in contents}
    return all(one is other for one, other in zip(container, contents, strict=True))


def _same_items(now: dict[Any, Any], contents: Any) -> bool:
    return len(now) == len(contents) and all(name in now and now[name] is value for name, value in contents.items())


def _refill(container: Any, contents: Any) -> None:
    """Replace the items of a container, or the attributes of a class."""
    if isinstance(container, type):
        now = dict(vars(container))
        for name in now.keys() - contents.keys():
            delattr(container, name)
        for name, value in contents.items():
            if now.get(name, container) is not value:
                setattr(container, name, value)
        return
    if isinstance(container, dict) and all(isinstance(name, str) for name in cast("dict[Any, Any]", container)):
        now = cast("dict[str, Any]", container)
        for name in [name for name, value in now.items() if name not in contents and not stays(name, value)]:
            del now[name]
    else:
        container.clear()
    items = cast(Any, container)
    if isinstance(container, (list, deque)):
        items.extend(contents)
    else:
        items.update(contents)


def _closure(function: Any) -> list[Any]:
    """Return the values in a function's closure."""
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_filled(cell)]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises where the variable is unbound
    except ValueError:
        return False
    return True
