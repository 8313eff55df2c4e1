"""Traced accesses stay inside the storage of their pointer.

Otherwise the trace names line and tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch._functorch import config as functorch_config
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.tools.tensor_descriptor import TensorDescriptor

from ioaware.errors import UsageError
from ioaware.tracing.interpreter import interpret_kernels


def line_of(text: str) -> int:
    return 1 + Path(__file__).read_text().splitlines().index(f"    {text}")


def message(host: Callable[[], object]) -> str:
    with interpret_kernels(), pytest.raises(UsageError) as caught:
        host()
    assert caught.value.exit_code == 2
    return caught.value.what


@triton.jit
def copy_kernel(x, out, start, BLOCK: tl.constexpr):
    at = start + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(out + at, values)


LOAD, STORE = "values = tl.load(x + at)", "tl.store(out + at, values)"


def copy(x: torch.Tensor, out: torch.Tensor, programs: int, start: int = 0) -> None:
    copy_kernel[(programs,)](x, out, start, BLOCK=64)


def test_a_forgotten_mask_names_the_line_the_tensor_and_the_elements() -> None:
    x, out = torch.zeros(1024), torch.empty(1000)
    expected = f"copy_kernel, line {line_of(STORE)} stores 24 elements past out (1000 elements)"
    assert message(lambda: copy(x, out, 16)) == expected


def test_elements_before_a_tensor() -> None:
    x, out = torch.zeros(64), torch.empty(64)
    assert message(lambda: copy(x, out, 1, -3)).endswith(f"line {line_of(LOAD)} loads 3 elements before x (64 elements)")


def test_an_access_to_adjacent_memory_is_out_of_bounds() -> None:
    """Two adjacent storages: the memory is mapped, but belongs to another tensor."""
    block = torch.zeros(128)
    first, second = (torch.frombuffer(block.numpy().data, dtype=torch.float32, count=64, offset=at) for at in (0, 256))
    assert second.data_ptr() == first.data_ptr() + 256
    assert "loads 64 elements past x (64 elements)" in message(lambda: copy(first, torch.empty(128), 2))


def test_views_reach_all_of_their_storage() -> None:
    whole, out = torch.arange(256.0), torch.zeros(256)
    with interpret_kernels():
        copy(whole[64:128], out[64:128], 1, -64)
        copy(whole[64:128], out[64:128], 2, 64)
    assert torch.equal(out, torch.cat([whole[:64], torch.zeros(64), whole[128:]]))
    assert "loads 1 element past x (256 elements)" in message(lambda: copy(whole[64:65], torch.empty(65), 1, 129))


@triton.jit
def atomic_kernel(out, n, BLOCK: tl.constexpr):
    tl.atomic_add(out + tl.arange(0, BLOCK), 1.0, mask=tl.arange(0, BLOCK) < n)


def test_atomics_and_masked_lanes() -> None:
    out = torch.zeros(20)
    with interpret_kernels():
        atomic_kernel[(1,)](out, 20, BLOCK=32)
    assert torch.equal(out, torch.ones(20))
    assert "updates 2 elements past out (20 elements)" in message(lambda: atomic_kernel[(1,)](out, 22, BLOCK=32))


@triton.jit
def through_table_kernel(table, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in range(n):
        pointer = tl.load(table + row).to(tl.pointer_type(tl.float32))
        tl.store(out + row * BLOCK + at, tl.load(pointer + at))


def test_pointers_from_a_table_belong_to_the_tensors_they_were_taken_from() -> None:
    with functorch_config.patch(fake_tensor_allow_unsafe_data_ptr_access=False), FakeTensorMode():
        without_memory = torch.empty(4)  # torch's compiler leaves such tensors alive
    assert without_memory.device.type == "cpu"
    rows = [torch.full((32,), float(row)) for row in range(3)]
    table, out = torch.tensor([row.data_ptr() for row in rows]), torch.empty(96)
    with interpret_kernels():
        through_table_kernel[(1,)](table, out, 3, BLOCK=32)
    assert torch.equal(out, torch.cat(rows))
    wild = torch.tensor([64])
    assert "loads at address 0x40, which belongs to no tensor" in message(
        lambda: through_table_kernel[(1,)](wild, out, 1, BLOCK=32)
    )


@triton.jit
def select_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(tl.where(at % 2 == 0, x, y) + at, mask=at < n))


def test_a_block_of_pointers_into_two_tensors() -> None:
    x, y, out = torch.zeros(32), torch.ones(31), torch.empty(32)
    with interpret_kernels():
        select_kernel[(1,)](x, y, out, 31, BLOCK=32)
    assert torch.equal(out[:31], torch.arange(31) % 2.0)
    assert "loads 1 element past y (31 elements)" in message(lambda: select_kernel[(1,)](x, y, out, 32, BLOCK=32))


@triton.jit
def descriptor_kernel(source, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), source.load([0, 0]).reshape(BLOCK))


def test_a_descriptor_larger_than_its_tensor() -> None:
    x, out = torch.rand(2, 16), torch.empty(64)
    fitting, oversized = (TensorDescriptor(x, shape=[rows, 16], strides=[16, 1], block_shape=[4, 16]) for rows in (2, 4))
    with interpret_kernels():
        descriptor_kernel[(1,)](fitting, out, BLOCK=64)
    assert torch.equal(out[:32], x.flatten())
    assert "loads 32 elements past source (32 elements)" in message(lambda: descriptor_kernel[(1,)](oversized, out, BLOCK=64))


def test_another_element_type_of_the_same_memory() -> None:
    x, out = torch.zeros(64, dtype=torch.int8), torch.empty(64, dtype=torch.int8)
    with interpret_kernels():
        copy(triton.reinterpret(x, tl.float8e5), triton.reinterpret(out, tl.float8e5), 1)
    assert "loads 64 elements past x (64 elements)" in message(
        lambda: copy(*(triton.reinterpret(tensor, tl.float8e5) for tensor in (x, out)), 2)
    )


class ForeignArray:
    """An array of another library: no torch tensor, but with pointer, shape and type."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.dtype, self.shape = tensor, tensor.dtype, tensor.shape

    def data_ptr(self) -> int:
        return self.tensor.data_ptr()


def test_an_object_with_a_data_pointer() -> None:
    x, out = torch.rand(64), torch.empty(64)
    with interpret_kernels():
        copy(ForeignArray(x), out, 1)  # pyright: ignore[reportArgumentType]
    assert torch.equal(x, out)
    assert "loads 64 elements past x (64 elements)" in message(lambda: copy(ForeignArray(x), torch.empty(128), 2))  # pyright: ignore[reportArgumentType]


class NumpyArray:
    """An array whose memory belongs to no torch tensor."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        return self.array.ctypes.data


def test_memory_of_no_tensor_beside_a_tensor_without_memory() -> None:
    with functorch_config.patch(fake_tensor_allow_unsafe_data_ptr_access=False), FakeTensorMode():
        without_memory = torch.empty(8)
    x, out = np.ones(64, np.float32), torch.empty(64)
    with interpret_kernels():
        copy(NumpyArray(x), out, 1)  # pyright: ignore[reportArgumentType]
    assert torch.equal(out, torch.ones(64))
    assert "loads 64 elements past x (64 elements)" in message(lambda: copy(NumpyArray(x), torch.empty(128), 2))  # pyright: ignore[reportArgumentType]
    assert without_memory.shape == (8,)


def test_an_empty_tensor_may_be_passed_and_not_touched() -> None:
    out = torch.empty(0)
    with interpret_kernels():
        atomic_kernel[(1,)](out, 0, BLOCK=32)
    assert "updates 1 element past out (0 elements)" in message(lambda: atomic_kernel[(1,)](out, 1, BLOCK=32))


def test_many_tensors_one_after_the_other_keep_their_ranges() -> None:
    with interpret_kernels():
        for size in range(1, 200, 7):
            x, out = torch.rand(64 * size), torch.empty(64 * size)
            copy(x, out, size)
            assert torch.equal(x, out)


@triton.jit
def optional_kernel(x, zero, out, USED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    offset = tl.load(zero)
    values = tl.load(x + at)
    if USED:
        values += offset
    tl.store(out + at, values)


@triton.jit
def stale_kernel(x, zero, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    offset = 0.0
    for _ in range(2):
        tl.store(out + at, tl.load(x + at) + offset)
        offset = tl.load(zero)


def test_a_load_beyond_a_tensor_whose_value_is_not_used_is_none() -> None:
    """The compiler drops it, as host code relies on that passes an empty tensor."""
    x, empty, out = torch.ones(64), torch.empty(0), torch.zeros(64)
    with interpret_kernels():
        optional_kernel[(1,)](x, empty, out, USED=False, BLOCK=64)
    assert out.sum() == 64
    expected = "loads 1 element past zero (0 elements)"
    assert message(lambda: optional_kernel[(1,)](x, empty, out, USED=True, BLOCK=64)).endswith(
        f"line {line_of('offset = tl.load(zero)')} {expected}"
    )
    assert message(lambda: stale_kernel[(1,)](x, empty, out, BLOCK=64)).endswith(expected)
