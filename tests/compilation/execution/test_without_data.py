"""Launches without an exact formula whose bytes no data decide.

They are executed at the given sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation.execution.without_data import execute_without_data
from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target


@triton.jit
def sum_rows_persistently(x, out, rows, tiles, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row, turn = tl.program_id(0) - PROGRAMS, -1
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for _ in range(tiles * tl.cdiv(rows - tl.program_id(0), PROGRAMS)):
        turn = tl.where(turn == tiles - 1, 0, turn + 1)
        if turn == 0:
            row += PROGRAMS
            total = tl.zeros([BLOCK], dtype=tl.float32)
        total += tl.load(x + (row * tiles + turn) * BLOCK + at)
        if turn == tiles - 1:
            tl.store(out + row * BLOCK + at, total)


@triton.jit
def strided(x, out, step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * step + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(x + at, mask=at >= 0))


@triton.jit
def sum_every_third_backwards(x, out, rows, step, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    turn, total = 0, tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(rows, 0, -step):
        turn = tl.where(turn == 2, 0, turn + 1)
        if turn == 0:
            total += tl.load(x + row * BLOCK + at)
    tl.store(out + at, total)


def summed(rows: int = 10, tiles: int = 3, device: str = "cuda") -> Callable[[], object]:
    x, out = torch.empty(rows, 16 * tiles, device=device), torch.empty(rows, 16, device=device)
    return lambda: sum_rows_persistently[(4,)](x, out, rows, tiles, PROGRAMS=4, BLOCK=16)


def wrapping(step: int = 2**30, device: str = "cuda") -> Callable[[], object]:
    x, out = torch.empty(3 * step, device=device), torch.empty(4, 256, device=device)
    return lambda: strided[(4,)](x, out, step, BLOCK=256)


def test_a_counter_that_restarts_has_exact_bytes_at_the_given_sizes() -> None:
    """Each of 10 rows is read once, in 3 tiles of 16 floats, and stored as 16 floats."""
    target = load_target(summed)
    derived = derive(target, target.resolve({}), machine_code=False, check=True)
    assert derived.exact, derived.launches[0].notes
    assert derived.requested is not None
    assert (derived.requested.read_bytes, derived.requested.write_bytes) == (4 * 10 * 3 * 16, 4 * 10 * 16)
    assert any(note.startswith("bytes at these sizes, by executing") for note in derived.launches[0].notes)


def backwards(rows: int = 10, step: int = 1, device: str = "cuda") -> Callable[[], object]:
    x, out = torch.empty(rows + 1, 16, device=device), torch.empty(16, device=device)
    return lambda: sum_every_third_backwards[(1,)](x, out, rows, step, BLOCK=16)


def test_a_step_of_one_is_the_constant_that_triton_compiles() -> None:
    """Compiled code steps down by a constant alone.

    A step in a register ends such a loop before its first iteration.
    """
    (launch,) = (captured := capture(load_target(backwards), {"rows": 10, "step": 1})).launches
    moved = execute_without_data(launch, captured.values, DEFAULT_GPU)
    assert moved
    assert moved.read_bytes == 4 * 3 * 16


def test_a_formula_that_ignores_a_wrap_stays_inexact() -> None:
    """The numbers could be executed, but not the formula beside them.

    Budgets hold that formula at every size.
    """
    target = load_target(wrapping)
    assert not derive(target, target.resolve({}), machine_code=False).exact
