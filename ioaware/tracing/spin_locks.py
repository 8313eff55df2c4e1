"""Detect a program that waits for a later one.

Programs run one after the other here, so it would wait forever.

Each iteration of a `while` loop is compared with the one before. If no variable differs and no memory was changed meanwhile,
every further iteration is the same. Source of such loops: the spin locks of stream-K matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import triton.language as _tl
from numpy.typing import NDArray
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches
from ioaware.tracing.address_space import POINTER_OPERANDS

interpreter: Any = _interpreter
tl: Any = _tl


class EndlessLoopError(Exception):
    """A loop repeats without changing anything."""


class LoopGuard:
    """Changes of memory since the first `while` loop of a launch."""

    def __init__(self) -> None:
        self._active = False
        self._changes = 0

    def new_loop(self) -> Callable[[Mapping[str, Any]], None]:
        """Return a function to call at the start of each iteration of one loop.

        It takes the local variables.

        It raises `EndlessLoopError` at an iteration that repeats the one before.
        """
        self._active = True
        before: tuple[int, dict[str, Any]] | None = None

        def iteration(variables: Mapping[str, Any]) -> None:
            nonlocal before
            now = (self._changes, {name: value for name, value in variables.items() if " " not in name})
            if before is not None and before[0] == now[0] and _same_variables(before[1], now[1]):
                raise EndlessLoopError
            before = now

        return iteration

    def install(self, builder: Any, patches: Patches) -> None:
        """Make the builder's stores and atomics count as changes.

        They count where they change memory at real addresses.
        """
        load: Callable[..., Any] = builder.create_masked_load  # below any patch that counts or translates

        def watched(name: str, pointers_at: int, mask_at: int | None) -> None:
            def operation(*operands: Any, **options: Any) -> Any:
                if not self._active:
                    return plain(*operands, **options)
                pointers = operands[pointers_at]
                mask = np.ones(pointers.data.shape, bool) if mask_at is None else operands[mask_at]
                handle = interpreter.TensorHandle(mask, tl.int1) if isinstance(mask, np.ndarray) else mask
                before = _bytes(load(pointers, handle, None, None, None, False))
                outcome = plain(*operands, **options)
                self._changes += before != _bytes(load(pointers, handle, None, None, None, False))
                return outcome

            plain: Callable[..., Any] = patches.set(builder, name, operation)

        for name, (pointers_at, mask_at, verb) in POINTER_OPERANDS.items():
            if verb != "loads" and hasattr(builder, name):
                watched(name, pointers_at, mask_at)


def _bytes(handle: Any) -> bytes:
    return handle.data.tobytes()


def _same_variables(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return before.keys() == now.keys() and all(_same(before[name], now[name]) for name in now)


def _same(before: Any, now: Any) -> bool:
    if before is now:
        return True
    if type(before) is not type(now):
        return False
    if isinstance(now, tl.tensor):
        left, right = before.handle, now.handle
        return isinstance(left, interpreter.TensorHandle) and _same_bits(left.data, right.data)
    return isinstance(now, (int, float, str, bool)) and before == now


def _same_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()
