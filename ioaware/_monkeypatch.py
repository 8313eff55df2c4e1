"""Replace attributes inside a `with` block and restore all of them at its end."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, TracebackType
from typing import Any

_ABSENT = object()
_active: list[Patches] = []
"""The patches whose blocks are running, the innermost last."""


class Patches:
    """Set attributes and restore the old values at the end of the `with` block.

    They are restored in reverse order.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner.name`; return the old value, or None where there was none.

        An inherited attribute (a method seen through its instance) is deleted again at the end, not copied to the owner.
        """
        self._undo.append((owner, name, owner.__dict__.get(name, _ABSENT)))
        before = getattr(owner, name, None)
        setattr(owner, name, value)
        return before

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`, which the owner itself does not have.

        Why: `set` asks for the old value, which builds an error in each of many modules.
        """
        self._undo.append((owner, name, _ABSENT))
        setattr(owner, name, value)

    def __enter__(self) -> Patches:
        _active.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _active.remove(self)
        while self._undo:
            _put(*self._undo.pop())

    def restore(self) -> list[tuple[Any, str, Any]]:
        """Set the old values again, and return what was there.

        `_put` of that in reverse order takes it back.
        """
        replaced: list[tuple[Any, str, Any]] = []
        for owner, name, value in reversed(self._undo):
            replaced.append((owner, name, owner.__dict__.get(name, _ABSENT)))
            _put(owner, name, value)
        return replaced


def _put(owner: Any, name: str, value: Any) -> None:
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


@contextmanager
def unpatched() -> Generator[None]:
    """Restore what any patch replaced, inside the block."""
    replaced = [one for patches in reversed(_active) for one in patches.restore()]
    try:
        yield
    finally:
        for one in reversed(replaced):
            _put(*one)


@contextmanager
def imported_unpatched(package: str) -> Generator[None]:
    """Restore what any patch replaced while the package is first imported.

    Why: a module that keeps functions of others in its tables keeps them after the patches have ended.
    """
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Find one module as ever, with a loader that runs it unpatched."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return that module's specification, and None for all others."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self._module else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Run a module, and all that it imports, unpatched."""

    def __init__(self, plain: Loader) -> None:
        self._plain = plain

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._plain.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, which names its own loader afterwards."""
        module.__loader__ = self._plain
        if module.__spec__ is not None:
            module.__spec__.loader = self._plain
        with unpatched():
            self._plain.exec_module(module)
