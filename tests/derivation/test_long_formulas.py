# pyright: basic
"""Kernels whose formulas are too long: their bytes come from an execution."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware import derive, trace
from ioaware.analysis.ir.algebra import sympy_bridge


@triton.jit
def masked_copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def wrapped_copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) + 65536
    if at * at < n:  # 2^32 is 0 in 32 bits
        tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))


@triton.jit
def repeated_copy(x, out, counts, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(tl.load(counts + tl.program_id(0)), tl.load(counts + tl.program_id(0) + 1)):
        tl.store(out + at, tl.load(x + at))


def copied(n: int = 1000, device: str = "cuda"):
    x, out = torch.ones(n, device=device), torch.empty(n, device=device)
    return lambda: masked_copy[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)  # pyright: ignore[reportArgumentType]


def wrapped(n: int = 1000, device: str = "cuda"):
    x, out = torch.ones(64, device=device), torch.empty(64, device=device)
    return lambda: wrapped_copy[(1,)](x, out, n, BLOCK=8)  # pyright: ignore[reportArgumentType]


def repeated(n: int = 4, device: str = "cuda"):
    x, out = torch.ones(n * 32, device=device), torch.empty(n * 32, device=device)
    counts = torch.zeros(n + 1, dtype=torch.int32, device=device)
    masked_copy[(1,)](counts, counts, n, BLOCK=8)  # pyright: ignore[reportArgumentType]
    return lambda: repeated_copy[(n,)](x, out, counts, BLOCK=32)  # pyright: ignore[reportArgumentType]


@pytest.fixture(autouse=True)
def no_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sympy_bridge, "LONGEST_FORMULA", 2)


@pytest.mark.parametrize("function", ["copied", "wrapped"])
def test_a_kernel_without_formulas_has_the_bytes_of_its_trace(function: str) -> None:
    result, traced = derive(f"{__file__}:{function}"), trace(f"{__file__}:{function}")
    (launch,) = result.launches
    assert launch.requested is not None
    assert traced.requested is not None
    assert any("characters, and is not written" in note for note in launch.notes)
    assert any("by executing the kernel's integers" in note for note in launch.notes)
    assert launch.requested.read_bytes == traced.requested.read_bytes != 0
    assert launch.requested.write_bytes == traced.requested.write_bytes


def test_without_formulas_what_data_decide_stays_unknown() -> None:
    result = derive(f"{__file__}:repeated")
    assert not result.exact
    assert result.requested is None or result.requested.read_bytes is None
