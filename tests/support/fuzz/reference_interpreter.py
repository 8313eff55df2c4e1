"""Reference interpreter: Triton's language in numpy.

It counts accesses and holds no memory.

It uses neither Triton's compiler and interpreter nor ioaware. The kernel's Python function runs with `tl` replaced.
Loaded floats are 0. Loaded integers are computed from the address, so that data can decide accesses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from triton.runtime.jit import JITFunction

from tests.support.fuzz.numbers import Number, Pointer, number
from tests.support.fuzz.tensor_functions import tensor_functions

SECTOR_BYTES = 32
MAX_ACCESSES = 2500
ATOMICS = ("atomic_add", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg")


class TooLongError(Exception):
    """The kernel makes more accesses or steps than a test may run."""


@dataclass
class Tally:
    """Bytes requested by the launches of a host function.

    `data`: whether an integer was loaded.
    """

    read_bytes: int = 0
    write_bytes: int = 0
    atomic_bytes: int = 0
    read_sector_bytes: int = 0
    write_sector_bytes: int = 0
    flops: int = 0
    data: bool = False
    accesses: int = 0
    steps: int = 0

    def count(self, kind: str, pointer: Pointer, mask: Any) -> np.ndarray:
        """Count one execution of an access and return its active lanes."""
        self.step()
        self.accesses += 1
        active = np.broadcast_to(True if mask is None else number(mask).data.astype(bool), pointer.addresses.shape)
        lanes = int(np.count_nonzero(active))
        setattr(self, f"{kind}_bytes", getattr(self, f"{kind}_bytes") + lanes * pointer.width)
        if kind != "atomic":
            sectors = SECTOR_BYTES * np.unique(pointer.addresses[active] // SECTOR_BYTES).size
            setattr(self, f"{kind}_sector_bytes", getattr(self, f"{kind}_sector_bytes") + sectors)
        return active

    def step(self) -> None:
        self.steps += 1
        if self.accesses > MAX_ACCESSES or self.steps > 5 * MAX_ACCESSES:
            raise TooLongError

    def loaded(self, pointer: Pointer, active: np.ndarray) -> Number:
        if not pointer.integers:
            return Number(np.zeros(pointer.addresses.shape))
        self.data = True
        return Number(np.where(active, (pointer.addresses // pointer.width * 37 + 11) % 7, 0))


class Block:
    """A block pointer or descriptor at a position.

    Lanes outside the tensor along `checked` are masked.
    """

    def __init__(self, base: Pointer, shape: Sequence[Any], strides: Sequence[Any], at: Sequence[Any], block: Sequence[int]):
        self.base, self.shape, self.strides, self.at, self.block = base, shape, strides, tuple(map(number, at)), block

    def lanes(self, checked: Sequence[int]) -> tuple[Pointer, np.ndarray]:
        places = np.indices(tuple(map(int, self.block)))
        inside, offset = np.ones(places.shape[1:], bool), Number(0)
        for d, place in enumerate(places):
            coordinate = self.at[d] + place
            offset = offset + coordinate * self.strides[d]
            if d in checked:
                inside = inside & ((coordinate >= 0) & (coordinate < self.shape[d])).data
        return self.base + offset, inside


def language(tally: Tally, program: Sequence[int], grid: Sequence[int]) -> SimpleNamespace:
    """Return `triton.language` for one program."""

    def load(pointer: Any, mask: Any = None, other: Any = None, boundary_check: Sequence[int] = (), **_: Any) -> Number:
        if isinstance(pointer, Block):
            pointer, mask = pointer.lanes(boundary_check)
        return tally.loaded(pointer, tally.count("read", pointer, mask))

    def store(pointer: Any, value: Any, mask: Any = None, boundary_check: Sequence[int] = (), **_: Any) -> None:
        if isinstance(pointer, Block):
            pointer, mask = pointer.lanes(boundary_check)
        shape = getattr(number(value).data, "shape", ()) or pointer.addresses.shape
        tally.count("write", Pointer(np.broadcast_to(pointer.addresses, shape), pointer.width, pointer.integers), mask)

    def atomic_add(pointer: Pointer, value: Any, mask: Any = None) -> Number:
        return tally.loaded(pointer, tally.count("atomic", pointer, mask))

    def atomic_cas(pointer: Pointer, compare: Any, value: Any) -> Number:
        return atomic_add(pointer, value)

    def dot(a: Number, b: Number, accumulator: Any = None) -> Number:
        tally.flops += 2 * a.data.shape[0] * a.data.shape[1] * b.data.shape[1]
        return Number(np.zeros((a.data.shape[0], b.data.shape[1])))

    def descriptor(base: Pointer, shape: Any, strides: Any, block_shape: Any) -> SimpleNamespace:
        def at(place: Any) -> Block:
            return Block(base, shape, strides, place, block_shape)

        every = range(len(block_shape))
        return SimpleNamespace(
            load=lambda place: load(at(place), boundary_check=every),
            store=lambda place, value: store(at(place), value, boundary_check=every),
        )

    def where(condition: Any, a: Any, b: Any) -> Any:
        if isinstance(a, Pointer):
            return Pointer(np.where(number(condition).data, a.addresses, b.addresses), a.width, a.integers)
        return Number(np.where(number(condition).data, number(a).data, number(b).data))

    def ranged(*bounds: Any, **_: Any) -> Iterator[Any]:
        for at in range(*map(int, bounds)):
            tally.step()
            yield Number(at)

    return SimpleNamespace(
        load=load, store=store, dot=dot, where=where, range=ranged,
        static_range=lambda *bounds: range(*map(int, bounds)),
        program_id=lambda axis: Number(program[axis]), num_programs=lambda axis: Number(grid[axis]),
        arange=lambda low, high: Number(np.arange(low, high)),
        zeros=lambda shape, dtype=None: Number(np.zeros(shape)), full=lambda shape, value, dtype=None: Number(np.zeros(shape)),
        sum=lambda value, axis=None: Number(value.data.sum(axis)), trans=lambda value: Number(value.data.T),
        minimum=lambda a, b: Number(np.minimum(number(a).data, number(b).data)),
        maximum=lambda a, b: Number(np.maximum(number(a).data, number(b).data)),
        cdiv=lambda a, b: (number(a) + b - 1) // b if isinstance(a, Number) or isinstance(b, Number) else -(-a // b),
        make_block_ptr=lambda base, shape, strides, offsets, block_shape, order: Block(
            base, shape, strides, offsets, block_shape
        ),
        advance=lambda block, by: Block(
            block.base, block.shape, block.strides, [a + b for a, b in zip(block.at, by, strict=True)], block.block
        ),
        make_tensor_descriptor=descriptor, multiple_of=lambda value, by: value, assume=lambda truth: None,
        float32=float, float16=float, int8=np.int8, uint32=np.uint32, int32=np.int64, int64=np.int64,
        abs=lambda value: Number(np.abs(number(value).data)), constexpr=None,
        **tensor_functions(), **dict.fromkeys(ATOMICS, atomic_add), atomic_cas=atomic_cas,
    )  # fmt: skip


class ReferenceKernel:
    """Replacement of a `JITFunction`.

    Its launch runs the programs in order and counts.
    """

    def __init__(self, kernel: JITFunction[Any], tally: Tally) -> None:
        self.kernel, self.tally = kernel, tally

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*given: Any, num_warps: int = 4, **constants: Any) -> None:
            names = dict(zip(self.kernel.arg_names, given, strict=False)) | constants
            sizes = grid(names) if callable(grid) else grid
            sizes = [*sizes, 1, 1][:3]
            arguments = {name: _argument(value, name in constants) for name, value in names.items()}
            for program in itertools.product(*map(range, sizes)):
                self.tally.step()
                _with_language(self.kernel.fn, language(self.tally, program, sizes))(**arguments)

        return launch


def _argument(value: Any, constant: bool) -> Any:
    if hasattr(value, "storage_offset"):
        start = (value.untyped_storage()._cdata << 20) & ~0xFFFF
        width = value.element_size()
        return Pointer(start + value.storage_offset() * width, width, "int32" in str(value.dtype))
    return value if constant else Number(value)


def _with_language(function: Any, tl: SimpleNamespace) -> Any:
    """Return the kernel's function with `tl` replaced by the language above."""
    world: dict[str, Any] = {}
    for name, value in function.__globals__.items():
        is_device_code = isinstance(value, JITFunction)
        world[name] = FunctionType(value.fn.__code__, world, name, value.fn.__defaults__) if is_device_code else value
    world.update(tl=tl, range=tl.range, min=tl.minimum, max=tl.maximum)
    return FunctionType(function.__code__, world, function.__name__, function.__defaults__)


def count(host: Callable[..., object], **params: int) -> Tally:
    """Return the bytes that the launches of a host function request.

    Raise `TooLongError`.
    """
    tally = Tally()
    world = dict(host.__globals__)
    for name, value in world.items():
        if isinstance(value, JITFunction):
            world[name] = ReferenceKernel(value, tally)
    plain = FunctionType(host.__code__, world, host.__name__, host.__defaults__)
    with np.errstate(all="ignore"):
        plain(**params, device="meta")
    return tally
