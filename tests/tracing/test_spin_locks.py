"""A program that waits for a later one is an error, not an endless loop.

Progress is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from ioaware.errors import UsageError
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.trace_progress import Progress


@triton.jit
def load_lock_kernel(flags, out):
    program = tl.program_id(0)
    if program == 0:
        ready = tl.load(flags + 1)
        while ready == 0:
            ready = tl.load(flags + 1, volatile=True)
    tl.store(out + program, 1.0)
    tl.store(flags + program, 1)


@triton.jit
def cas_lock_kernel(flags, out):
    program = tl.program_id(0)
    if program == 0:
        while tl.atomic_cas(flags + 1, 1, 1) != 1:
            pass
    tl.atomic_xchg(flags + program, 1)
    tl.store(out + program, 1.0)


@triton.jit
def add_lock_kernel(flags, out):
    program = tl.program_id(0)
    while tl.atomic_add(flags + 1, 0) < 1 and program == 0:
        tl.store(out, 0.0)  # stores the same value, so nothing changes
    tl.atomic_add(flags + program, 1)
    tl.store(out + program, 1.0)


@pytest.mark.parametrize("kernel", [load_lock_kernel, cas_lock_kernel, add_lock_kernel])
def test_a_program_that_waits_for_a_later_one_is_named(kernel) -> None:
    flags, out = torch.zeros(2, dtype=torch.int32), torch.zeros(2)
    with interpret_kernels(), pytest.raises(UsageError) as caught:
        kernel[(2,)](flags, out)
    lines = Path(__file__).read_text().splitlines()
    start = next(number for number, line in enumerate(lines, 1) if f"def {kernel.fn.__name__}" in line)
    line = next(number for number, text in enumerate(lines[start:], start + 1) if "while" in text)
    assert f"line {line}: program (0, 0, 0) waits in a loop for a later program" in caught.value.what
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("kernel", [load_lock_kernel, cas_lock_kernel, add_lock_kernel])
def test_a_program_that_waits_for_an_earlier_one_continues(kernel) -> None:
    flags, out = torch.tensor([0, 1], dtype=torch.int32), torch.zeros(2)
    with interpret_kernels():
        kernel[(2,)](flags, out)
    assert torch.equal(out, torch.ones(2))


@triton.jit
def search_kernel(x, out, n):
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if tl.load(x + middle) < 5.0:
            low = middle + 1
        else:
            high = middle
    tl.store(out, low)


@triton.jit
def countdown_kernel(counter, out):
    steps = 0.0
    while tl.atomic_add(counter, -1) > 0:
        pass
    while tl.load(counter) < 3:
        tl.store(counter, tl.load(counter) + 1)
        tl.store(out, steps)


def test_loops_that_change_a_variable_or_memory_are_no_deadlock() -> None:
    place, counter, out = torch.zeros(1, dtype=torch.int32), torch.tensor([4], dtype=torch.int32), torch.ones(1)
    with interpret_kernels():
        search_kernel[(1,)](torch.arange(16.0), place, 16)
        countdown_kernel[(1,)](counter, out)
    assert (place.item(), counter.item(), out.item()) == (5, 3, 0)


def reports(work: Callable[[Progress], object]) -> list[str]:
    lines: list[str] = []
    progress = Progress(lines.append, interval_s=0.01)
    with progress:
        work(progress)
    return lines


def test_a_long_trace_reports_programs_and_the_time_left() -> None:
    counter, out = torch.zeros(4096, dtype=torch.int32), torch.empty(1)

    def work(progress: Progress) -> None:
        with interpret_kernels(progress=progress):
            countdown_kernel[(300,)](counter, out)

    lines = reports(work)
    assert any(
        "countdown_kernel:" in line and "of 300 programs, about" in line and "left in this launch" in line for line in lines
    )


def test_a_long_host_function_reports_itself() -> None:
    import time

    assert "the host function runs" in reports(lambda _: time.sleep(0.1))
