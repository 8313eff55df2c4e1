"""Kernels that data decide: derived, traced, and counted by loops."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support.targets import ragged_kernels, sparse_kernels, walked_lists

MODULES = (sparse_kernels, ragged_kernels, walked_lists)
TARGETS = {name: (module, count) for module in MODULES for name, count in module.COUNTS.items()}


@triton.jit
def ladder_kernel(x, out, n, STEPS: tl.constexpr, B: tl.constexpr):
    program, i = tl.program_id(0), tl.arange(0, B)
    place = program
    for k in tl.static_range(STEPS):
        place = tl.where(place >= n // (k + 2), place - n // (k + 2), place + 3 * k)
    tl.store(out + program * B + i, tl.load(x + place * B + i, mask=place * B + i < n))


def ladder(n: int = 1500) -> None:
    ladder_kernel[(8,)](torch.ones(n, device="cuda"), torch.ones(1024, device="cuda"), n, STEPS=14, B=8)


@pytest.mark.parametrize("name", TARGETS)
def test_derived_traced_and_counted(name: str) -> None:
    module, count = TARGETS[name]
    target = load_target(getattr(module, name))
    reads, writes, atomics = count()
    by_hand = {"read_bytes": 4 * reads, "write_bytes": 4 * writes, "atomic_bytes": 4 * atomics}
    traced = trace(target, target.resolve({})).requested
    assert {field: getattr(traced, field) or 0 for field in by_hand} == by_hand
    derived = derive(target, target.resolve({}), machine_code=False)
    assert {field: getattr(derived.requested, field) or 0 for field in by_hand} == by_hand
    assert derived.exact


def test_an_unrolled_search_has_a_short_formula() -> None:
    """Each step of the search doubles the expression of the place it reads."""
    target = load_target(sparse_kernels.searched)
    derived = derive(target, target.resolve({}), machine_code=False)
    assert len(str(derived.requested.read_formula)) < 2000


def test_a_long_expression_of_sizes_is_counted_by_execution() -> None:
    """Each of 14 steps doubles the expression of a row, by no data."""
    target = load_target(ladder)
    derived, place = derive(target, target.resolve({}), machine_code=False), list(range(8))
    for k in range(14):
        place = [at - 1500 // (k + 2) if at >= 1500 // (k + 2) else at + 3 * k for at in place]
    assert derived.exact
    assert derived.requested.read_bytes == 4 * sum(max(0, min(8, 1500 - 8 * at)) for at in place) > 0
    assert any("by executing the kernel's integers" in note for note in derived.launches[-1].notes)


@triton.jit
def scaled_kernel(x, scales, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) * tl.load(scales + i // 100, i < n), i < n)


def scaled(n: int = 1000) -> None:
    x = torch.arange(n, dtype=torch.int32, device="cuda")
    scaled_kernel[(triton.cdiv(n, 256),)](x, torch.empty(10, device="cuda"), torch.empty(n, device="cuda"), n, B=256)


def test_sectors_that_no_data_decide_name_none() -> None:
    """256 lanes span 2 sectors of scales at most, as 8 of 4 B lie in one."""
    target = load_target(scaled)
    derived = derive(target, target.resolve({}), machine_code=False)
    assert derived.exact
    assert derived.requested.read_sector_bytes == 1000 * 4 + 5 * 32
    note = "sectors at these sizes, by executing the kernel's integers: no formula has a rule for them"
    assert note in derived.launches[-1].notes


@triton.jit
def mixed_kernel(keys, x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    key = tl.load(keys + i)
    for _ in tl.static_range(3):
        key = (key ^ 1597334677) ^ (key & 0x2D2816FE)
    tl.store(out + i, tl.load(x + i), mask=(key & 0x2AAAAAAA) > 169_000_000)


def mixed() -> None:
    keys = torch.arange(64, dtype=torch.int32, device="cuda") * 1_234_567
    mixed_kernel[(1,)](keys, torch.ones(64, device="cuda"), torch.empty(64, device="cuda"), B=64)


def test_masks_of_many_runs_of_bits_are_counted_by_execution() -> None:
    target = load_target(mixed)
    derived, writes = derive(target, target.resolve({}), machine_code=False), 0
    for key in (at * 1_234_567 for at in range(64)):
        for _ in range(3):
            key = (key ^ 1597334677) ^ (key & 0x2D2816FE)
        writes += (key & 0x2AAAAAAA) > 169_000_000
    assert derived.exact
    assert derived.requested.write_bytes == 4 * writes
    assert 0 < writes < 64
