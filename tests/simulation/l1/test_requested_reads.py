"""Requested reads where formulas or addresses are missing, by hand.

H200's counters say that a table of 1 KB is read once by each SM.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from ioaware.machine import find_machine
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import load_target

BLOCK = 1024


@triton.jit
def scaled(x, scales, out, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * tl.load(scales + at // GROUP))


@triton.jit
def decoded(codes, table, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(table + tl.load(codes + at).to(tl.int32)))


@triton.jit
def gathered(x, index, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(out + row * COLUMNS + column, tl.load(x + tl.load(index + row) * COLUMNS + column))


@triton.jit
def swept(x, out, columns, WIDTH: tl.constexpr):
    """Read a column of tiles twice, each row of a tile one sector."""
    place = tl.arange(0, 16)[:, None] * columns + tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros([16, WIDTH], tl.float32)
    for _ in range(2):
        for row in range(0, 64, 16):
            total += tl.load(x + row * columns + place)
    tl.store(out + place, total)


def scale(blocks: int = 64, device: str = "cuda") -> Callable[[], object]:
    x, out = (torch.empty(blocks * BLOCK, device=device) for _ in range(2))
    scales = torch.empty(blocks * BLOCK // 32, device=device)
    return lambda: scaled[(blocks,)](x, scales, out, BLOCK=BLOCK, GROUP=32)


def decode(blocks: int = 1000, entries: int = 256, device: str = "cuda") -> Callable[[], object]:
    codes = torch.empty(blocks * BLOCK, device=device, dtype=torch.uint8)
    out = torch.empty(blocks * BLOCK, device=device)
    table = torch.empty(entries, device=device)
    return lambda: decoded[(blocks,)](codes, table, out, BLOCK=BLOCK)


def gather(rows: int = 1024, of: int = 4096, device: str = "cuda") -> Callable[[], object]:
    x, out = (torch.empty(count, 64, device=device, dtype=torch.float16) for count in (of, rows))
    index = torch.empty(rows, device=device, dtype=torch.int32)
    return lambda: gathered[(rows // 16,)](x, index, out, ROWS=16, COLUMNS=64)


def sweep(tiles: int = 4, device: str = "cuda") -> Callable[[], object]:
    columns = tiles * 8
    x, out = torch.empty(64, columns, device=device), torch.empty(16, columns, device=device)
    return lambda: swept[(tiles,)](x, out, columns, WIDTH=8)


def simulated(function: Callable[..., object], **params: int) -> Simulated:
    target = load_target(function)
    return simulate(target, target.resolve(params), machine=find_machine("H200"), cold=True)


def test_sectors_of_a_replay_stand_for_a_missing_formula() -> None:
    """The scale of 32 elements is one word: no formula counts its sectors."""
    requested = simulated(scale).requested
    assert requested is not None
    assert requested.read_sector_bytes == 64 * BLOCK * 4 + 64 * BLOCK // 32 * 4


def test_a_small_table_is_missed_once_by_each_sm() -> None:
    found = simulated(decode)
    assert found.requested is not None
    assert found.hbm is not None
    table = 1000 * BLOCK + 132 * 256 * 4
    assert table <= (found.requested.read_sector_bytes or 0) <= table * 1.01
    assert found.hbm.read_bytes == 1000 * BLOCK + 256 * 4
    low, high = found.read_range
    assert low == 1000 * BLOCK
    assert high is not None
    assert high <= 1000 * BLOCK + 256 * 4 * 8  # the L2 holds as many lines as are requested, a few times over


@pytest.mark.parametrize(("rows", "of"), [(1024, 4096), (4096, 1024)])
def test_of_a_gather_each_byte_is_taken_as_read_once(rows: int, of: int) -> None:
    found = simulated(gather, rows=rows, of=of)
    assert found.hbm is not None
    assert found.hbm.read_bytes == rows * 4 + min(rows, of) * 128
    assert found.simulations[0] is not None
    tensors = {one.tensor: one for one in found.simulations[0].tensors}
    assert tensors["x"].read_bytes == tensors["x"].distinct_bytes == min(rows, of) * 128
    assert "data decide where x are accessed: each byte is taken as moved once" in found.notes


def test_sectors_of_a_narrow_tile_are_accessed_alone() -> None:
    """HBM moves 64 bytes of a sector alone, and the L1 is asked for 32."""
    (found,) = simulated(sweep).simulations
    assert found is not None
    assert found.l1 is not None
    once = 4 * 64 * 32
    assert found.l1.accessed_bytes == 2 * once
    assert found.l1.served_bytes == once
    assert found.requested_read_bytes == once
