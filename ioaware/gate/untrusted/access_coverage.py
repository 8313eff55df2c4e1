"""Record which bytes of given tensors are read, by kernels and by torch operators.

A kernel's reads are those of its masks; an operator reads whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from ioaware.fakegpu.aten.aten_traffic import operator_traffic, tensors_read
from ioaware.fakegpu.storages import OperatorMode, strided_tensors
from ioaware.tracing.address_space import as_mask, element_bytes
from ioaware.tracing.observer import Access

_torch: Any = torch


def storage_key(tensor: torch.Tensor) -> int:
    """Return the identity of a tensor's storage."""
    storage: Any = tensor.untyped_storage()
    return storage._cdata


class ReadCoverage:
    """An observer of the interpreter that marks the bytes read of watched storages."""

    def __init__(self) -> None:
        self._watched: list[torch.Tensor] = []
        self._read: dict[int, np.ndarray[Any, np.dtype[np.bool_]]] = {}
        self._starts: dict[int, set[int]] = {}
        self._made: set[int] = set()
        self._places: list[tuple[int, int, int]] = []
        self.computed: list[tuple[str, torch.Tensor]] = []
        """What torch operators computed in this call, with their names."""

    def watch(self, tensors: Sequence[torch.Tensor]) -> None:
        """Watch these tensors."""
        self._watched = list(tensors)
        self.begin()

    def begin(self) -> None:
        """Forget what was read and made before."""
        self._made = {storage_key(tensor) for tensor in self._watched}
        self.computed = []
        for tensor in self._watched:
            storage = tensor.untyped_storage()
            self._read[storage_key(tensor)] = np.zeros(storage.nbytes(), bool)
            self._starts[storage_key(tensor)] = {storage.data_ptr()}

    def launch(self, kernel: str, grid: tuple[int, ...], tensors: Mapping[str, tuple[int, torch.Tensor]]) -> None:
        """Note where the kernel sees each watched storage."""
        del kernel, grid
        self._places = []
        for address, tensor in tensors.values():
            storage = tensor.untyped_storage()
            start = address - (tensor.data_ptr() - storage.data_ptr())
            self._places.append((start, start + storage.nbytes(), storage_key(tensor)))
            if storage_key(tensor) in self._starts:
                self._starts[storage_key(tensor)].add(start)

    def access(self, kind: Access, pointers: Any, mask: Any, value: Any = None) -> None:
        """Mark the elements of a load or an atomic."""
        del value
        active = np.broadcast_to(np.True_ if mask is None else as_mask(mask), pointers.data.shape)
        if kind != "read" and active.any():
            first = int(pointers.data[active].flat[0])
            self._made |= {key for start, end, key in self._places if start <= first < end}
        if kind == "write":
            return
        addresses, width = pointers.data[active].astype(np.int64), element_bytes(pointers)
        for key, starts in self._starts.items():
            for start in starts:
                offsets = addresses - start
                inside = offsets[(offsets >= 0) & (offsets + width <= self._read[key].size)]
                for byte in range(width):
                    self._read[key][inside + byte] = True

    def whole(self, tensors: Iterable[torch.Tensor]) -> None:
        """Mark every element of these tensors: a torch operator read them."""
        for tensor in tensors:
            if (read := self._read.get(storage_key(tensor))) is not None:
                read[_bytes_of(tensor)] = True

    def made_from(self, operands: Iterable[torch.Tensor], results: Iterable[torch.Tensor]) -> None:
        """Note results of a torch operator on inputs or on what this call made."""
        if any(storage_key(tensor) in self._made for tensor in operands):
            self._made |= {storage_key(tensor) for tensor in results}

    def is_made(self, tensor: torch.Tensor) -> bool:
        """Return whether this call wrote to a tensor, or it is an input.

        Else it is kept from an earlier call.
        """
        return storage_key(tensor) in self._made

    def unread(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a mask of the elements of a watched tensor that were not read in full."""
        read = self._read[storage_key(tensor)]
        elements = read[_bytes_of(tensor)].reshape(-1, tensor.element_size()).all(axis=1)
        return _torch.from_numpy(~elements).reshape(tensor.shape)

    def program(self, index: tuple[int, int, int]) -> None:
        """Ignore the program."""

    def enter(self, function: str) -> None:
        """Ignore the function."""

    def leave(self) -> None:
        """Ignore the function's end."""

    def iterations(self, name: str, items: Iterable[Any]) -> Iterator[Any]:
        """Return the items of a loop."""
        del name
        return iter(items)

    def while_loop(self) -> AbstractContextManager[Any]:
        """Return the context of a loop."""
        return nullcontext(lambda: None)

    def assigned(self, values: Mapping[str, Any]) -> None:
        """Ignore the variables."""


class OperatorReads(OperatorMode):
    """Mark what torch operators read, and report each as work; views are none."""

    def __init__(self, coverage: ReadCoverage, work: Callable[[], None]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._coverage = coverage
        self._work = work

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        operands = tensors_read(func, args, named)
        outcome = func(*args, **named)
        self._coverage.made_from(operands, strided_tensors(outcome))
        if operator_traffic(func, args, named, outcome) is not None:
            self._coverage.whole(operands)
            self._coverage.computed += [(str(func), tensor) for tensor in strided_tensors(outcome)]
            self._work()
        return outcome


def _bytes_of(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the offsets of every element's bytes in the storage, in element order."""
    first = np.full((), tensor.storage_offset(), np.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        first = first[..., None] + np.arange(size, dtype=np.int64) * stride
    width = tensor.element_size()
    return (first.reshape(-1, 1) * width + np.arange(width)).reshape(-1)
