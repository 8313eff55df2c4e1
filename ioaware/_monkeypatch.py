"""Replace attributes inside a `with` block and restore all of them at its end."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
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
    """Restore what any patch replaced, inside the block.

    A module that is imported there, and keeps functions of others in its tables, keeps the real ones.
    """
    replaced = [one for patches in reversed(_active) for one in patches.restore()]
    try:
        yield
    finally:
        for one in reversed(replaced):
            _put(*one)
