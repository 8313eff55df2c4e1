"""Replay what host code reads from tensors: record it once with real data, return it in every other run.

The recording run has real CPU tensors and executes no kernel. Values that torch computes are right unless they depend on a
kernel's output. Dependence is followed from storage to storage, and a read that depends on a kernel is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.storages import OperatorMode, storages
from ioaware.symints.symbols import ReadsDataError, Symbols, user_line

READS: Sequence[tuple[Any, Sequence[str]]] = (
    (torch, ("equal", "allclose", "is_nonzero")),
    (torch.Tensor, ("equal", "allclose", "is_nonzero", "item", "tolist", "__bool__", "__int__", "__float__", "__index__")),
    (FakeTensor, ("tolist",)),
)
"""Functions by which host code reads data. They are patched: a torch function mode does not reach into a backward."""

SHOWN = 60
"""Characters of a value shown in a note."""


@dataclass
class DataReads:
    """Values that the host code read, in order, each with its source line."""

    values: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])


@contextmanager
def recording(reads: DataReads, written: KernelWrites) -> Generator[None]:
    """Inside the block, append every value that host code reads to `reads`."""

    def record(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        where, inside_torch = user_line()
        if inside_torch:
            return plain(*args, **kwargs)
        if written.holds((args, kwargs)):
            raise ReadsDataError(
                f"the host function reads what a kernel computed at {where}, and a derivation runs no kernel", "Trace it."
            )
        value = plain(*args, **kwargs)
        reads.values.append((where, value))
        return value

    with _reading_through(record):
        yield


@contextmanager
def replaying(reads: DataReads, symbols: Symbols) -> Generator[None]:
    """Inside the block, return the recorded values, in order, to host code that reads a tensor."""
    left = list(reads.values)

    def replay(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not left or user_line()[1]:
            return plain(*args, **kwargs)
        where, value = left.pop(0)
        text = repr(value)
        symbols.assume(f"assumes that the data read at {where} is {text if len(text) <= SHOWN else text[:SHOWN] + '...'}")
        return value

    with _reading_through(replay):
        yield


@contextmanager
def _reading_through(read: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]) -> Generator[None]:
    with Patches() as patches:
        for owner, names in READS:
            for name in names:
                plain: Any = getattr(owner, name)

                def through(*args: Any, plain: Any = plain, **kwargs: Any) -> Any:
                    return read(plain, args, kwargs)

                patches.set(owner, name, through)
        yield


class KernelWrites(OperatorMode):
    """Inside the block, track the storages that kernels wrote, and those that torch computed from them."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._storages: dict[int, Any] = {}

    def add(self, tensors: Iterable[Any]) -> None:
        """Mark these tensors as written by a kernel."""
        self._storages |= storages(list(tensors))

    def holds(self, values: object) -> bool:
        """Return whether any tensor among the values depends on a kernel."""
        return not self._storages.keys().isdisjoint(storages(values))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if self.holds((args, kwargs)) and not _takes_shape_only(func._schema.name):
            written = [value for argument, value in zip(func._schema.arguments, args, strict=False) if _is_written(argument)]
            self.add([outcome, *written])
        return outcome


def _takes_shape_only(operator: str) -> bool:
    """Return whether an operator uses only the metadata of its operand, as `ones_like`."""
    return operator.endswith("_like") or operator.startswith("aten::new_")


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write
