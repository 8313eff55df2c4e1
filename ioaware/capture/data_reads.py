"""Host code that decides on data: what it reads of tensors is looked up once with real data and told to every other run.

The function runs on the CPU with tensors that have data, its kernels not run. What torch computes is then right as long as no
kernel had a part in it, which is followed from storage to storage; a read that a kernel had a part in is refused.
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
from ioaware.symints.symbols import ReadsDataError, Symbols, asking

READS: Sequence[tuple[Any, Sequence[str]]] = (
    (torch, ("equal", "allclose", "is_nonzero")),
    (torch.Tensor, ("equal", "allclose", "is_nonzero", "item", "tolist", "__bool__", "__int__", "__float__", "__index__")),
    (FakeTensor, ("tolist",)),
)
"""What gives host code a look at data. Attributes are replaced: a torch function mode does not reach into a backward."""

SHOWN = 60
"""Characters of a value that a note shows."""


@dataclass
class Reads:
    """What the host code read, in order, each with the line that did."""

    values: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])


@contextmanager
def recording(reads: Reads, written: Written) -> Generator[None]:
    """Inside the block, host code reads real data, and `reads` remembers it."""

    def remembered(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        where, inside_torch = asking()
        if inside_torch:
            return plain(*args, **kwargs)
        if written.holds((args, kwargs)):
            raise ReadsDataError(
                f"the host function reads what a kernel computed at {where}, and a derivation runs no kernel", "Trace it."
            )
        value = plain(*args, **kwargs)
        reads.values.append((where, value))
        return value

    with _reading_through(remembered):
        yield


@contextmanager
def replaying(reads: Reads, symbols: Symbols) -> Generator[None]:
    """Inside the block, host code that reads a tensor without data is told what it read when there was some."""
    left = list(reads.values)

    def told(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not left or asking()[1]:
            return plain(*args, **kwargs)
        where, value = left.pop(0)
        text = repr(value)
        symbols.assume(f"assumes that the data read at {where} is {text if len(text) <= SHOWN else text[:SHOWN] + '...'}")
        return value

    with _reading_through(told):
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


class Written(OperatorMode):
    """Inside the block, follows what kernels wrote: storages that hold it, or anything torch computed from it."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._kept: dict[int, Any] = {}

    def add(self, tensors: Iterable[Any]) -> None:
        """These tensors hold what a kernel wrote."""
        self._kept |= storages(list(tensors))

    def holds(self, values: object) -> bool:
        """Whether any tensor among the values has it."""
        return not self._kept.keys().isdisjoint(storages(values))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if self.holds((args, kwargs)) and not _takes_shape_only(func._schema.name):
            written = [value for argument, value in zip(func._schema.arguments, args, strict=False) if _is_written(argument)]
            self.add([outcome, *written])
        return outcome


def _takes_shape_only(operator: str) -> bool:
    """`ones_like` and its kind: of their operand they take what a tensor without data has."""
    return operator.endswith("_like") or operator.startswith("aten::new_")


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write
