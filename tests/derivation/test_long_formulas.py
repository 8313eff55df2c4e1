# pyright: basic
"""Kernels whose formulas are too long: their bytes come from an execution."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware import derive
from ioaware.analysis.ir.algebra import sympy_bridge


@triton.jit
def masked_copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


def copied(n: int = 1000, device: str = "cuda"):
    x, out = torch.ones(n, device=device), torch.empty(n, device=device)
    return lambda: masked_copy[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)  # pyright: ignore[reportArgumentType]


def test_a_kernel_with_too_long_formulas_has_bytes_at_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sympy_bridge, "LONGEST_FORMULA", 2)
    result = derive(f"{__file__}:copied", n=1000)
    (launch,) = result.launches
    assert launch.requested is not None
    assert any("characters, and is not written" in note for note in launch.notes)
    assert (launch.requested.read_bytes, launch.requested.write_bytes) == (4000, 4000)
    assert any("by executing the kernel's integers" in note for note in launch.notes)
