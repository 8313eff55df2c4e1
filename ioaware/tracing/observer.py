"""Define what the interpreter reports of a run as it happens.

It reports launches, programs, loops, assignments and accesses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import torch

Access = Literal["read", "write", "atomic"]


class Observer(Protocol):
    """Receives each event of a run, in order. Values must not be changed."""

    def begin(self) -> None:
        """Begin a part of the run: building the inputs, or the work.

        What was reported before is not part of the work.
        """
        ...

    def launch(self, kernel: str, grid: tuple[int, ...], tensors: Mapping[str, tuple[int, torch.Tensor]]) -> None:
        """Begin a launch.

        `tensors` are its arguments in memory, each with the address that the kernel sees.
        """
        ...

    def program(self, index: tuple[int, int, int]) -> None:
        """Begin a program of the grid."""
        ...

    def enter(self, function: str) -> None:
        """Enter the kernel or a device function."""
        ...

    def leave(self) -> None:
        """Leave the function entered last."""
        ...

    def iterations(self, name: str, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items of a `for` loop over `name`."""
        ...

    def while_loop(self) -> AbstractContextManager[Callable[[], None]]:
        """Return the context of a `while` loop.

        What it gives is called at the start of each iteration.
        """
        ...

    def assigned(self, values: Mapping[str, Any]) -> None:
        """Note the variables that an assignment has set."""
        ...

    def access(self, kind: Access, pointers: Any, mask: Any, value: Any = None) -> None:
        """Note a memory access before it happens.

        It gives the interpreter's pointers, mask (None: all) and stored value.
        """
        ...


def observed(function: Callable[..., Any], observer: Observer) -> Callable[..., Any]:
    """Return `function` with its calls reported."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        observer.enter(function.__name__)
        try:
            return function(*args, **kwargs)
        finally:
            observer.leave()

    return call
