"""Give every storage its own address range.

With that each access is checked against its storage.

A kernel argument points into the range of its storage, far from every other range. So an address outside its storage still
identifies the storage. Ranges begin at multiples of 2^44, as aligned as GPU memory. Accesses are translated to the storage's
real address just before memory is accessed.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ioaware._monkeypatch import Patches

Addresses = NDArray[np.uint64]
Mask = NDArray[np.bool_]

SLOT_BITS = 44
MARGIN = 2 ** (SLOT_BITS - 1)
"""Bytes between the start of a range and its storage: room for negative offsets."""
FIRST_SLOT = 2 ** (62 - SLOT_BITS)
"""Ranges begin at 2^62, above every address of a process."""


class OutsideStorageError(Exception):
    """An access outside of the storage that its pointer belongs to.

    `accesses` completes "line 9 ...", and `program` is the one that makes it.
    """

    def __init__(self, accesses: str) -> None:
        super().__init__(accesses)
        self.accesses = accesses
        self.program: tuple[int, ...] = ()


@dataclass(slots=True)
class Region:
    """Range of one storage.

    `start` is its address for kernels, `real` the address in this process, sizes in bytes.
    """

    name: str
    start: int
    real: int
    nbytes: int
    alive: Callable[[], object | None]


class AddressSpace:
    """Storages to which kernels have a pointer."""

    def __init__(self) -> None:
        self._regions: dict[int, Region] = {}
        self._slot_of: dict[int, int] = {}
        self._tensors: list[Region] = []

    def address_of(self, value: Any, name: str) -> int:
        """Return the address that a kernel sees for an argument.

        It is a tensor, or another object with `data_ptr()`, passed as `name`.
        """
        tensor = getattr(value, "base", value)
        pointer = int(tensor.data_ptr())
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else _storage_at(pointer)
        if storage is not None:
            key, real, nbytes = storage._cdata, storage.data_ptr(), storage.nbytes()
        else:  # memory of no tensor: the object's own elements are all that it may touch
            storage, key, real, nbytes = tensor, -id(tensor), pointer, _extent(tensor)
        region = self._region(key, storage)
        region.name, region.real, region.nbytes = name, real, nbytes
        return region.start + pointer - real

    def _region(self, key: int, storage: Any) -> Region:
        """Return the region of a storage; a freed storage's key may have been reused."""
        slot = self._slot_of.get(key)
        if slot is not None and self._regions[slot].alive() is storage:
            return self._regions[slot]
        slot = FIRST_SLOT + len(self._regions)
        self._slot_of[key] = slot
        self._regions[slot] = Region("", (slot << SLOT_BITS) + MARGIN, 0, 0, _weak(storage))
        return self._regions[slot]

    def translate(self, addresses: Addresses, mask: Mask, width: int, *, verb: str) -> Addresses:
        """Return real addresses for the elements of `width` bytes that an access touches.

        Raises `OutsideStorageError` if an active element is not inside the storage that its pointer belongs to.
        """
        active = addresses[mask]
        if active.size == 0:
            return addresses
        low, high = int(active.min()), int(active.max())
        region = self._regions.get(low >> SLOT_BITS) or self._containing(low)
        inside = region is not None and region.start <= low and high + width <= region.start + region.nbytes
        if region is not None and inside and region.alive() is not None:
            return addresses + np.uint64((region.real - region.start) % 2**64)
        return self._translate_mixed(addresses, mask, width, verb)

    def _translate_mixed(self, addresses: Addresses, mask: Mask, width: int, verb: str) -> Addresses:
        """Translate an access whose elements are in several storages.

        One storage is translated at a time.
        """
        translated = addresses.copy()
        slots = addresses >> np.uint64(SLOT_BITS)
        for slot in np.unique(slots[mask]).tolist():
            here = mask & (slots == slot)
            region = self._regions.get(slot)
            if region is None:
                for place in np.argwhere(here):
                    at = tuple(place)
                    found = self._containing(int(addresses[at]))
                    _check(found, addresses[at][None], width, verb)
                continue
            _check(region, addresses[here], width, verb)
            translated[here] += np.uint64((region.real - region.start) % 2**64)
        return translated

    def _containing(self, address: int) -> Region | None:
        """Return the region of a process address in any live tensor's storage.

        The host took the address with `data_ptr()`.
        """
        if address >> SLOT_BITS >= FIRST_SLOT:
            return None
        for attempt in range(2):
            for region in self._tensors:
                if region.start <= address < region.start + region.nbytes:
                    return region
            if attempt == 0:
                self._tensors = _live_storages()
        return None


def _check(region: Region | None, addresses: Addresses, width: int, verb: str) -> None:
    """Raise `OutsideStorageError` unless all elements are inside the region."""
    if region is None:
        raise OutsideStorageError(f"{verb} at address {int(addresses.min()):#x}, which belongs to no tensor")
    offsets = addresses.astype(np.int64) - region.start
    before, past = int((offsets < 0).sum()), int((offsets + width > region.nbytes).sum())
    outside = [f"{_elements(count)} {side}" for count, side in ((past, "past"), (before, "before")) if count]
    if outside:
        size = _elements(region.nbytes // width)
        raise OutsideStorageError(f"{verb} {' and '.join(outside)} {region.name} ({size})")
    if region.alive() is None:
        raise OutsideStorageError(f"{verb} {_elements(addresses.size)} of {region.name} after the tensor was freed")


def _elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"


def _storage_at(address: int) -> Any:
    """Return the storage of a tensor that an address of this process points into.

    None for other memory.
    """
    for start, storage in _storages_with_memory():
        if start <= address < start + storage.nbytes():
            return storage
    return None


def _extent(value: Any) -> int:
    """Return the bytes of an object that is no tensor, as if contiguous.

    They follow from its shape and dtype.
    """
    width = getattr(getattr(value, "dtype", None), "itemsize", 1)
    return math.prod(map(int, getattr(value, "shape", ()))) * int(width)


def _weak(value: Any) -> Callable[[], object | None]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _live_storages() -> list[Region]:
    """Return the storages of every tensor that Python holds."""
    regions = {
        start: Region("a tensor", start, start, storage.nbytes(), _weak(storage)) for start, storage in _storages_with_memory()
    }
    return list(regions.values())


def _storages_with_memory() -> Iterator[tuple[int, Any]]:
    """Yield address and storage of every live tensor that has memory of its own."""
    for value in _live_tensors():
        try:
            storage = value.untyped_storage()
            start = storage.data_ptr()
        except RuntimeError:  # a fake tensor that torch's compiler keeps, or a wrapper of torch.func
            continue
        if start:
            yield start, storage


def _live_tensors() -> Iterator[torch.Tensor]:
    for value in gc.get_objects():
        if issubclass(type(value), torch.Tensor) and value.layout == torch.strided and value.device.type == "cpu":
            yield value


POINTER_OPERANDS = {
    "create_masked_load": (0, 1, "loads"),
    "create_masked_store": (0, 2, "stores"),
    "create_atomic_rmw": (1, 3, "updates"),
    "create_atomic_cas": (0, None, "updates"),
    "create_atomic_load": (0, 1, "loads"),
    "create_atomic_store": (0, 2, "stores"),
    "create_atomic_poll": (0, None, "loads"),
}
"""Builder operations that touch memory.

Each has positions of pointers and mask among the operands, and the verb of messages.
"""


def install(space: AddressSpace, builder: Any, patches: Patches) -> None:
    """Make the builder's memory operations translate their pointers."""
    from triton.runtime.interpreter import TensorHandle

    inside = False

    def translated(name: str, pointers_at: int, mask_at: int | None, verb: str) -> None:
        def operation(*operands: Any, **options: Any) -> Any:
            nonlocal inside
            if inside:  # Triton 3.9 builds some atomics from plain loads and stores
                return plain(*operands, **options)
            handles = list(operands)
            pointers = handles[pointers_at]
            active = active_lanes(pointers, None if mask_at is None else handles[mask_at])
            try:
                real = space.translate(pointers.data, active, element_bytes(pointers), verb=verb)
            except OutsideStorageError as error:
                error.program = builder.grid_idx
                raise
            handles[pointers_at] = TensorHandle(real, pointers.dtype)
            inside = True
            try:
                return plain(*handles, **options)
            finally:
                inside = False

        plain: Callable[..., Any] = patches.set(builder, name, operation)

    for name, (pointers_at, mask_at, verb) in POINTER_OPERANDS.items():
        if hasattr(builder, name):
            translated(name, pointers_at, mask_at, verb)


def active_lanes(pointers: Any, mask: Any) -> Any:
    """Return the mask of an access in its pointers' shape.

    Without one every lane is active.
    """
    lanes = np.True_ if mask is None else as_mask(mask)
    return lanes if lanes.shape == pointers.data.shape else np.broadcast_to(lanes, pointers.data.shape)


def as_mask(handle: Any) -> Any:
    """Return a mask as a boolean array.

    Block pointers and descriptors pass arrays, other accesses handles.

    A kernel's arithmetic on masks may yield integers, which numpy would take as indices.
    """
    return np.asarray(handle if isinstance(handle, np.ndarray) else handle.data, bool)


def element_bytes(pointers: Any) -> int:
    """Return the bytes of the pointed-to element; a boolean takes one."""
    return max(1, pointers.get_element_ty().primitive_bitwidth // 8)
