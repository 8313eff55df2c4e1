"""Attributes replaced for a while: every patch of a trace goes through here, so that every one of them is undone."""

from __future__ import annotations

from types import TracebackType
from typing import Any

_ABSENT = object()


class Patches:
    """Sets attributes and, on leaving the `with` block, puts back what was there before, last one first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replaces `owner.name`; returns what a reader of the attribute saw before (None when there was nothing).

        An attribute that was only inherited (a method seen through its instance) is deleted again afterwards, not copied down.
        """
        self._undo.append((owner, name, owner.__dict__.get(name, _ABSENT)))
        before = getattr(owner, name, None)
        setattr(owner, name, value)
        return before

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
