"""No round on a GPU finds its data in the L2, be its lines persisting or not.

A chain of dependent loads is slow from HBM and quick from the L2.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.gpu import NEEDS_GPU

if TYPE_CHECKING:
    from torch import Tensor

    from ioaware.bench.benchmark_device import CudaBenchmarkDevice

LINE_ELEMENTS, LINES, STEPS = 32, 2**17, 4096
"""A table of 16 MiB in lines of 128 bytes, and a walk over 4096 of them."""
CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ACCESS_POLICY_WINDOW = 6, 1
NORMAL, PERSISTING = 0, 2


pytestmark = NEEDS_GPU


class AccessPolicyWindow(ctypes.Structure):
    """CUaccessPolicyWindow, padded to the size of CUlaunchAttributeValue."""

    _fields_ = (
        ("base_ptr", ctypes.c_void_p),
        ("num_bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit_property", ctypes.c_int),
        ("miss_property", ctypes.c_int),
        ("padding", ctypes.c_char * 36),
    )


def checked(code: int) -> None:
    assert code == 0, f"CUDA error {code}"


@contextmanager
def persisting(table: Tensor) -> Iterator[Any]:
    """Yield a stream on which kernels leave the table in persisting lines."""
    import torch

    driver, stream = ctypes.CDLL("libcuda.so.1"), torch.cuda.Stream()
    size = table.numel() * table.element_size()
    checked(driver.cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(size)))
    window = AccessPolicyWindow(table.data_ptr(), size, 1.0, PERSISTING, NORMAL)
    set_attribute = driver.cuStreamSetAttribute
    checked(set_attribute(ctypes.c_void_p(stream.cuda_stream), ACCESS_POLICY_WINDOW, ctypes.byref(window)))
    try:
        yield stream
    finally:
        torch.cuda.synchronize()
        none = AccessPolicyWindow(None, 0, 0.0, NORMAL, NORMAL)
        checked(set_attribute(ctypes.c_void_p(stream.cuda_stream), ACCESS_POLICY_WINDOW, ctypes.byref(none)))
        checked(driver.cuCtxResetPersistingL2Cache())


class Chain:
    """A walk through a random cycle over the lines of a table, by one thread."""

    def __init__(self) -> None:
        import torch

        from tests.support.targets.pointer_chase import chase

        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(LINES, generator=generator)
        self.table = torch.zeros(LINES * LINE_ELEMENTS, dtype=torch.int32)
        self.table[order * LINE_ELEMENTS] = (order.roll(-1) * LINE_ELEMENTS).to(torch.int32)
        self.table = self.table.cuda()
        self.out = torch.empty(1, dtype=torch.int32, device="cuda")
        self.kernel: Any = chase

    def __call__(self) -> None:
        self.kernel[(1,)](self.table, self.out, STEPS, num_warps=1)


def median_ns(once: Callable[[], float]) -> float:
    return statistics.median(once() for _ in range(9))


def timed_after(chain: Chain, prepare: Callable[[], object]) -> Callable[[], float]:
    """Return a function that times the walk by events after a preparation."""
    import torch

    def once() -> float:
        prepare()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        chain()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e6

    return once


@pytest.fixture(scope="module")
def device() -> CudaBenchmarkDevice:
    from ioaware.bench.benchmark_device import opened_device

    return opened_device()


def test_a_round_reads_from_hbm_though_the_call_before_left_its_data_in_the_l2(device: CudaBenchmarkDevice) -> None:
    chain = Chain()
    cold = median_ns(device.timer(chain))
    warm = median_ns(timed_after(chain, chain))
    print(f"warm {warm:.0f} ns, cold {cold:.0f} ns")
    assert warm < 0.9 * cold


def test_persisting_lines_outlive_a_flush_by_writing_and_not_a_round(device: CudaBenchmarkDevice) -> None:
    import torch

    chain = Chain()
    flush = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    never = median_ns(device.timer(chain))
    with persisting(chain.table) as stream:

        def fill() -> None:
            with torch.cuda.stream(stream):
                chain.table.sum()
            torch.cuda.synchronize()

        def fill_and_write() -> None:
            fill()
            flush.zero_()

        fooled = median_ns(timed_after(chain, fill_and_write))
        once = device.timer(chain)
        fill()
        cold = once()
    print(f"never persisting {never:.0f} ns, after zero_() {fooled:.0f} ns, in a round {cold:.0f} ns")
    assert fooled < 0.75 * never
    assert cold == pytest.approx(never, rel=0.1)


def test_our_process_is_among_those_on_the_gpu(device: CudaBenchmarkDevice) -> None:
    assert len(device.own_processes) == 1
    assert device.own_processes <= set(device.snapshot().processes)
    assert device.cuda_version
