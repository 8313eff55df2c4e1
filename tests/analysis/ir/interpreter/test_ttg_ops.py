"""Gluon kernels from TTGIR by hand: copies, TMA and warp partitions.

Copies are plain and asynchronous.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sympy import ceiling
from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from ioaware.analysis.ir import Descriptor, Pointer, Scalar, analyse
from tests.support.ir_zoo.compiled import TARGET, symbols

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

M, N = symbols("M N")
TILE = "tensordesc<fp32[32,32],NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)>"


def newest(module: Any, *names: str) -> Any:
    """Return the first of these names that works.

    Triton 3.9 keeps removed names as stubs that raise.
    """
    return next(getattr(module, name) for name in names if hasattr(module, name))


copy_in = newest(async_copy, "async_load", "async_copy_global_to_shared")
tma_load = newest(tma, "async_load", "async_copy_global_to_shared")
tma_store = newest(tma, "async_store", "async_copy_shared_to_global")


def ttgir(kernel: Any, signature: dict[str, str], **constants: Any) -> str:
    backend = make_backend(TARGET)
    source = GluonASTSource(kernel, signature | dict.fromkeys(constants, "constexpr"), constants, {})
    options = backend.parse_options(source.parse_options())
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    rest = (options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    takes_target = len(inspect.signature(source.make_ir).parameters) == 5
    return str(source.make_ir(TARGET, *rest) if takes_target else source.make_ir(*rest))


@gluon.jit
def copied(x, out, n, B: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    buffer = gl.allocate_shared_memory(gl.float32, [2, B], shared)
    at = gl.program_id(0) * B + gl.arange(0, B, layout=layout)
    copy_in(buffer.index(0), x + at, mask=at < n)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + at, buffer.index(0).load(layout) + gl.load(x + at, mask=at < n), mask=at < n)


def test_asynchronous_copies_read_under_their_mask() -> None:
    text = ttgir(copied, {"x": "*fp32", "out": "*fp32", "n": "i32"}, B=128)
    derived = analyse(text, [Pointer("x"), Pointer("out"), Scalar("n", N)], [ceiling(N / 128)])
    assert derived.exact
    assert (str(derived.read_bytes), str(derived.write_bytes)) == ("8*N", "4*N")
    assert str(derived.read_sector_bytes) == "64*ceil(N/8)"


@gluon.jit
def through_tma(a, b, n, B: gl.constexpr):
    buffer = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(barrier, count=1)
    for i in range(0, n, B):
        mbarrier.expect(barrier, a.block_type.nbytes)
        tma_load(a, [gl.program_id(0) * B, i], barrier, buffer)
        mbarrier.wait(barrier, 0)
        fence_async_shared()
        tma_store(b, [gl.program_id(0) * B, i], buffer)
        tma.store_wait(0)
    mbarrier.invalidate(barrier)


def test_tma_copies_what_lies_inside_the_tensor() -> None:
    text = ttgir(through_tma, {"a": TILE, "b": TILE, "n": "i32"}, B=32)
    tensors = [Descriptor(name, (M, N), (N, 1)) for name in "ab"]
    derived = analyse(text, [*tensors, Scalar("n", N)], [ceiling(M / 32)])
    assert derived.exact
    assert (str(derived.read_bytes), str(derived.write_bytes)) == ("4*M*N", "4*M*N")


@gluon.jit
def producer(a, out, n, B: gl.constexpr, barrier, buffer):
    for i in range(0, n, B):
        mbarrier.expect(barrier, a.block_type.nbytes)
        tma_load(a, [0, i], barrier, buffer)


@gluon.jit
def consumer(a, out, n, B: gl.constexpr, barrier, buffer):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    for i in range(0, n, B):
        mbarrier.wait(barrier, 0)
        row = gl.arange(0, B, gl.SliceLayout(1, layout))[:, None]
        column = i + gl.arange(0, B, gl.SliceLayout(0, layout))[None, :]
        gl.store(out + row * n + column, buffer.load(layout), mask=column < n)


@gluon.jit
def specialised(a, out, n, B: gl.constexpr):
    buffer = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(barrier, count=1)
    gl.warp_specialize([(consumer, (a, out, n, B, barrier, buffer)), (producer, (a, out, n, B, barrier, buffer))], [1], [24])


def test_every_partition_of_warps_is_counted_once() -> None:
    text = ttgir(specialised, {"a": TILE, "out": "*fp32", "n": "i32"}, B=32)
    derived = analyse(text, [Descriptor("a", (M, N), (N, 1)), Pointer("out"), Scalar("n", N)], [1])
    assert derived.exact
    assert (str(derived.read_bytes), str(derived.write_bytes)) == ("4*N*min(32, M)", "128*N")
