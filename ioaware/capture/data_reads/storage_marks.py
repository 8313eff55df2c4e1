"""Track which tensors follow from marked ones.

Dependence is followed from storage to storage, through the operators of torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ioaware.fakegpu.aten.aten_traffic import takes_shape_only
from ioaware.fakegpu.storages import OperatorMode, storages, strided_tensors


class StorageMarks(OperatorMode):
    """Inside the block, track marked storages, as those that kernels wrote.

    Those that torch computed from them are tracked too.
    """

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._storages: dict[int, Any] = {}

    def add(self, tensors: Iterable[Any]) -> None:
        """Mark the storages of these tensors."""
        self._storages |= storages(list(tensors))

    def holds(self, values: object) -> bool:
        """Return whether any tensor among the values depends on a marked one."""
        return not self._storages.keys().isdisjoint(storages(values))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if self.holds((args, kwargs)) and not takes_shape_only(func._schema.name):
            written = [value for argument, value in zip(func._schema.arguments, args, strict=False) if _is_written(argument)]
            self.add([outcome, *written])
        return outcome


class RandomMarks(StorageMarks):
    """Inside the block, track storages of numbers that torch draws."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = super().__torch_dispatch__(func, types, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.add(strided_tensors(outcome))
        return outcome


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write
