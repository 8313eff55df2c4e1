"""Stores whose instructions share sectors are found in the compiled kernel.

Sectors by hand.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from ioaware.derivation.derive import derive
from ioaware.machine import find_machine
from ioaware.simulation.l1.shared_sectors import OF_NEIGHBOURS
from ioaware.simulation.simulate import simulate
from ioaware.targets.target import load_target


@triton.jit
def rounded(x, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    value = tl.load(x + row + at, mask=at < cols, other=0.0)
    tl.store(out + row + at, value.to(out.dtype.element_ty), mask=at < cols)


def rows_of(cols: int = 1024, dtype: str = "int8", device: str = "cuda") -> Callable[[], object]:
    x = torch.empty(4, cols, device=device)
    out = torch.empty(4, cols, device=device, dtype=getattr(torch, dtype))
    return lambda: rounded[(4,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))


@pytest.mark.parametrize(
    ("cols", "dtype", "times"),
    [
        (1024, "int8", ""),  # rows of whole sectors, wide instructions
        (1000, "int8", "1.94"),  # 32 warps' writes of 32 bytes, 8 bytes into a sector: 2 sectors each, 33 in the tile
        (1000, "float16", "1.48"),  # 64 bytes each, 16 bytes into one: 3 sectors each, 65 in the tile
        (1000, "float32", ""),  # rows of 4,000 bytes begin and end at sectors
        (1001, "float32", "1.24"),  # 128 bytes each, 4 bytes into one: 5 sectors each, 129 in the tile
    ],
)
def test_stores_that_share_sectors_get_a_note(cols: int, dtype: str, times: str) -> None:
    target = load_target(rows_of)
    derived = derive(target, target.resolve({"cols": cols, "dtype": dtype}))
    notes = [note for note in derived.launches[0].notes if note.startswith("sectors of tt.store")]
    assert bool(notes) == bool(times), notes
    assert all(note.endswith(f"a counter sees up to {times} times as many") for note in notes), notes


@pytest.mark.parametrize(
    ("cols", "dtype", "most"),
    [
        (1001, "float32", 0.24 * 7 / 8),  # rows begin at every fourth byte of a sector, one of eight at its start
        (1000, "float16", 0.48 / 2),  # every second row begins in the middle
        (1000, "float32", 0.0),  # rows begin and end at sectors
    ],
)
def test_simulate_expects_a_part_of_the_requests_that_share_sectors(cols: int, dtype: str, most: float) -> None:
    """Rows that begin inside a sector share it; the L1 merges a part."""
    target = load_target(rows_of)
    done = simulate(target, target.resolve({"cols": cols, "dtype": dtype}), machine=find_machine("H200"))
    (launch,), (how,) = done.launches, done.simulations
    assert how is not None
    assert launch.requested is not None
    once = (launch.requested.write_sector_bytes or 0) - how.unmerged_bytes
    assert how.shared_sector_bytes == pytest.approx(most * once, rel=0.02)
    assert how.unmerged_bytes == pytest.approx(OF_NEIGHBOURS * how.shared_sector_bytes, abs=1)
    assert done.requested is not None
    assert done.requested.write_sector_bytes == once + how.unmerged_bytes


@triton.jit
def rows_of_a_constant_stride(out, rows, COLS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    value = (row + column).to(tl.float16)
    tl.store(out + row * COLS + column, value, mask=(row < rows) & (column < COLS))


def constant_rows(cols: int = 1000, at_once: int = 1, device: str = "cuda") -> Callable[[], object]:
    out = torch.empty(16, cols, device=device, dtype=torch.float16)
    grid = (triton.cdiv(16, at_once),)
    warps = 4 if at_once == 1 else 1
    return lambda: rows_of_a_constant_stride[grid](
        out, 16, COLS=cols, ROWS=at_once, BLOCK=triton.next_power_of_2(cols), num_warps=warps
    )


@triton.jit
def tiles_by_tma(out, BLOCK: tl.constexpr):
    tile = tl.full((64, BLOCK), 1, tl.float16)
    out.store([tl.program_id(0) * 64, tl.program_id(1) * BLOCK], tile)


def tma_rows(cols: int = 3000, block: int = 128, device: str = "cuda") -> Callable[[], object]:
    out = torch.empty(64, cols, device=device, dtype=torch.float16)
    described = TensorDescriptor.from_tensor(out, [64, block])
    return lambda: tiles_by_tma[(1, triton.cdiv(cols, block))](described, BLOCK=block)


@pytest.mark.parametrize(
    ("make", "params", "times"),
    [
        (constant_rows, {"cols": 1000}, "1.05"),  # 4 warps' 512 bytes, 16 bytes into a sector: 17 sectors each, 65 in the tile
        (constant_rows, {"cols": 1008}, ""),  # rows of 63 sectors
        (constant_rows, {"cols": 100, "at_once": 8}, "1.12"),  # 7 sectors for each of 8 adjacent rows, 50 in the tile
        (constant_rows, {"cols": 112, "at_once": 8}, ""),
        (tma_rows, {"cols": 3000}, "1.11"),  # 2 boxes of 5 sectors, 9 in the row
        (tma_rows, {"cols": 3000, "block": 64}, ""),  # one box a row
        (tma_rows, {"cols": 3008}, ""),
    ],
)
def test_rows_that_begin_inside_a_sector_get_a_note(
    make: Callable[..., Callable[[], object]], params: dict[str, int], times: str
) -> None:
    target = load_target(make)
    derived = derive(target, target.resolve(params))
    notes = [note for note in derived.launches[0].notes if "a counter sees up to" in note]
    assert bool(notes) == bool(times), notes
    assert all(note.endswith(f"share them, and a counter sees up to {times} times as many") for note in notes), notes
