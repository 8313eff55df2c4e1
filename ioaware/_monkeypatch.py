"""Replace attributes inside a `with` block and restore all of them at its end."""

from __future__ import annotations

from types import TracebackType
from typing import Any

_ABSENT = object()


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
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
