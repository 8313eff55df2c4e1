"""FLOPs of measured targets that are no cases, and the least times that follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ioaware.derivation.measured_flops import NO_FLOPS, with_derived_flops
from ioaware.result import Launch, Result, Traffic

PRODUCT = """
import torch, triton, triton.language as tl

@triton.jit
def product(a, b, c, K, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        total = tl.dot(tl.load(a + rows * K + k + cols), tl.load(b + (k + rows) * BLOCK + cols), total)
    tl.store(c + rows * BLOCK + cols, total)

def work(k: int = 256, device: str = "cuda"):
    a, b = torch.empty(64, k, device=device, dtype=torch.float16), torch.empty(k, 64, device=device, dtype=torch.float16)
    c = torch.empty(64, 64, device=device)
    product[(1,)](a, b, c, k, BLOCK=64)
"""
LAUNCH = Launch("product", requested=Traffic(1_000, 0), hbm=Traffic(1_000, 0), time_ns=5_000.0)


@pytest.fixture
def measured(tmp_path: Path) -> Result:
    """Return a record as `measure` writes it, without FLOPs."""
    (tmp_path / "file.py").write_text(PRODUCT)
    return Result(
        "measure", f"{tmp_path}/file.py:work", params={"k": 512}, requested=LAUNCH.requested, hbm=LAUNCH.hbm, time_ns=4_000.0,
        launches=(LAUNCH,), environment={"gpu": "NVIDIA H200", "sm_count": 132},
    )  # fmt: skip


def test_a_measured_product_is_bound_by_its_arithmetic(measured: Result) -> None:
    found = with_derived_flops(measured)
    flops = 2 * 64 * 64 * 512
    assert (found.flops, found.launches[0].flops) == (flops, flops)
    assert found.time_bound is not None
    assert found.time_bound["arithmetic_ns"] == pytest.approx(flops / 989.5e12 * 1e9, rel=0.01)
    assert found.notes == ()


def test_what_cannot_be_derived_says_so(measured: Result) -> None:
    found = with_derived_flops(replace(measured, params={"k": 512, "other": 1}))
    assert found.flops is None
    assert NO_FLOPS in found.notes[-1]


def test_records_with_flops_or_without_a_time_stay(measured: Result) -> None:
    for same in (replace(measured, flops=1), replace(measured, time_ns=None), replace(measured, environment=None)):
        assert with_derived_flops(same) is same
    case = replace(measured, target="flash2", params={"seq_len": 512, "heads": 1, "head_dim": 64})
    assert with_derived_flops(case) is case
