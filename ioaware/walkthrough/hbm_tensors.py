"""Find which elements of which tensor in HBM an access touches.

They are given as ranges of its axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ioaware.tracing.address_space import SLOT_BITS

Range = tuple[int, int]
Key = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Address, shape and strides: what makes two arguments the same tensor."""


@dataclass(slots=True)
class HbmTensor:
    """A tensor that a kernel was given, without its axes of size 1."""

    names: list[str]
    """The names of the arguments that it was passed as, in order.

    `name` is one of them, different from other tensors'.
    """
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    dtype: str
    name: str = ""

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of the tensor with all axes but the last as rows.

        A vector is one column.
        """
        if len(self.shape) < 2:
            return (*self.shape, 1) if self.shape else (1, 1)
        return int(np.prod(self.shape[:-1])), self.shape[-1]

    def indices(self, addresses: NDArray[np.uint64]) -> list[NDArray[np.int64]] | None:
        """Return the indices of elements along each axis.

        None if an address is no element of the tensor.
        """
        offsets = addresses.astype(np.int64) - self.address
        rest, remainder = np.divmod(offsets, self.element_bytes)
        found: list[NDArray[np.int64]] = [np.zeros_like(rest) for _ in self.shape]
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            if self.strides[axis] > 0:
                found[axis], rest = np.divmod(rest, self.strides[axis])
        inside = [(index >= 0) & (index < size) for index, size in zip(found, self.shape, strict=True)]
        valid = not remainder.any() and not rest.any() and all(bool(each.all()) for each in inside)
        return found if valid else None


@dataclass(frozen=True, slots=True)
class Tile:
    """The elements that one access touches.

    There is a range of each axis, of which `elements` are accessed.
    """

    tensor: HbmTensor | None
    ranges: tuple[Range, ...]
    elements: int
    element_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes that the access moves."""
        return self.elements * self.element_bytes

    @property
    def label(self) -> str:
        """Name and ranges as Python slices, `K[0:3, :]`.

        How many elements where they are not all of them.
        """
        if self.tensor is None:
            return f"{self.elements} elements of no single argument"
        slices = [_slice(*where, size) for where, size in zip(self.ranges, self.tensor.shape, strict=True)]
        whole = int(np.prod([end - start for start, end in self.ranges]))
        part = "" if whole == self.elements else f" ({self.elements} of {whole})"
        return self.tensor.name + (f"[{', '.join(slices)}]" if slices else "") + part


def _slice(start: int, end: int, size: int) -> str:
    if (start, end) == (0, size):
        return ":"
    return str(start) if end == start + 1 else f"{start}:{end}"


class HbmTensors:
    """The tensors of a run, and those among them that the current launch was given."""

    def __init__(self) -> None:
        self._known: dict[Key, HbmTensor] = {}
        self._arguments: dict[int, list[HbmTensor]] = {}

    @property
    def all(self) -> list[HbmTensor]:
        """Every tensor so far, in the order of first use."""
        return list(self._known.values())

    def launch(self, tensors: Mapping[str, tuple[int, torch.Tensor]]) -> list[tuple[HbmTensor, torch.Tensor]]:
        """Begin a launch; return its tensors with their data."""
        self._arguments = {}
        given: list[tuple[HbmTensor, torch.Tensor]] = []
        for name, (address, data) in tensors.items():
            tensor = self._tensor(address, data)
            if name not in tensor.names:
                tensor.names.append(name)
            self._arguments.setdefault(address >> SLOT_BITS, []).append(tensor)
            given.append((tensor, data))
        return given

    def _tensor(self, address: int, data: torch.Tensor) -> HbmTensor:
        sizes = [(int(size), int(stride)) for size, stride in zip(data.shape, data.stride(), strict=True) if size != 1]
        shape, strides = tuple(size for size, _ in sizes), tuple(stride for _, stride in sizes)
        key = (address, shape, strides)
        if key not in self._known:
            kind = str(data.dtype).removeprefix("torch.")
            self._known[key] = HbmTensor([], address, shape, strides, data.element_size(), kind)
        return self._known[key]

    def tile(self, addresses: NDArray[np.uint64], element_bytes: int) -> tuple[Tile, list[NDArray[np.int64]]]:
        """Return the tile of an access's active addresses.

        The indices of its elements come with it.
        """
        for tensor in self._arguments.get(int(addresses[0]) >> SLOT_BITS, []):
            found = tensor.indices(addresses) if tensor.element_bytes == element_bytes else None
            if found is not None:
                ranges = tuple((int(index.min()), int(index.max()) + 1) for index in found)
                return Tile(tensor, ranges, addresses.size, element_bytes), found
        return Tile(None, (), addresses.size, element_bytes), []

    def resolve_names(self) -> None:
        """Give each tensor a unique name: tensors with fewest names choose first.

        Numbers distinguish the rest.
        """
        taken: set[str] = set()
        for tensor in sorted(self.all, key=lambda tensor: len(tensor.names)):
            free = [name for name in tensor.names if name not in taken]
            tensor.name = free[0] if free else _numbered(tensor.names[0], taken)
            taken.add(tensor.name)


def _numbered(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
