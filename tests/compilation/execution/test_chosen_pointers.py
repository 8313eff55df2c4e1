"""Pointers into one of several tensors, which a value from memory chooses.

Bytes at the target's own values equal counts by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ioaware
from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target

LENGTHS = (2, 0, 3, 5)
COLUMNS = 20


@triton.jit
def joined_rows(lengths, a, b, out, columns, BLOCK: tl.constexpr):
    """Row `place` of a sequence is of `a` before its length, and of `b` behind it."""
    sequence, place = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + sequence)
    at = tl.arange(0, BLOCK)
    if place == length:
        return
    if place < length:  # noqa: SIM108 - two pointers, as libraries choose them
        row = a + place * columns + at
    else:
        row = b + place * columns + at
    tl.store(out + (sequence * 6 + place) * columns + at, tl.load(row, at < columns), at < columns)


def joined(device: str = "cuda") -> Callable[[], object]:
    a = torch.empty(6, COLUMNS, device=device)
    lengths = torch.tensor(LENGTHS, device=device)
    out = torch.empty(4 * 6, COLUMNS, device=device)
    return lambda: joined_rows[(4, 6)](lengths, a, torch.empty_like(a), out, COLUMNS, BLOCK=32)


@triton.jit
def picked(lengths, a, b, out, BLOCK: tl.constexpr):
    program, at = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(lengths + program)
    chosen = a if length > 2 else b
    tl.store(chosen + at, 1.0, at < length)
    tl.atomic_add(chosen + at, 1.0, at == length)
    tl.store(out + program * BLOCK + at, tl.load(chosen + BLOCK + at, at <= length), at <= length)


def picked_by_length(device: str = "cuda") -> Callable[[], object]:
    a, out = torch.empty(32, device=device), torch.empty(64, device=device)
    lengths = torch.tensor(LENGTHS, device=device)
    return lambda: picked[(4,)](lengths, a, torch.empty_like(a), out, BLOCK=16)


@triton.jit
def swapped(lengths, a, b, out, BLOCK: tl.constexpr):
    """Two pointers change places in each iteration."""
    program, at = tl.program_id(0), tl.arange(0, BLOCK)
    here, there = a + at, b + at
    for turn in range(tl.load(lengths + program)):
        tl.store(out + at, tl.load(here, at <= turn))
        here, there = there, here
    tl.store(here, 1.0)


def swapped_by_length(device: str = "cuda") -> Callable[[], object]:
    a, out = torch.empty(16, device=device), torch.empty(16, device=device)
    lengths = torch.tensor(LENGTHS, device=device)
    return lambda: swapped[(4,)](lengths, a, torch.empty_like(a), out, BLOCK=16)


@pytest.mark.parametrize(
    ("target", "reads", "writes", "atomics"),
    [
        # each of 24 programs reads its length; 20 of them copy a row
        (joined, 24 * 8 + 20 * COLUMNS * 4, 20 * COLUMNS * 4, 0),
        (
            picked_by_length,
            4 * 8 + 4 * sum(length + 1 for length in LENGTHS),
            4 * sum(2 * length + 1 for length in LENGTHS),
            4 * 4,
        ),
        (swapped_by_length, 4 * 8 + 4 * sum(length * (length + 1) // 2 for length in LENGTHS), 64 * (sum(LENGTHS) + 4), 0),
    ],
)
def test_each_program_accesses_the_tensor_that_it_chose(target: Any, reads: int, writes: int, atomics: int) -> None:
    derived = derive(load_target(target), {}, machine_code=False)
    traced = ioaware.trace(target).requested
    assert derived.exact, derived.launches[0].notes
    assert derived.requested is not None
    assert traced is not None
    for found in (derived.requested, traced):
        assert (found.read_bytes, found.write_bytes, found.atomic_bytes) == (reads, writes, atomics)
    assert derived.requested.read_sector_bytes == traced.read_sector_bytes
    assert derived.requested.write_sector_bytes == traced.write_sector_bytes
