"""Loops and tiles as streams of events.

Kernels are counted by hand, and sweeps stay separate.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ioaware
from ioaware.simulation import streams
from ioaware.simulation.addresses.address_blocks import Rectangle
from ioaware.simulation.addresses.shapes import Shapes, distinct_shapes
from ioaware.simulation.l1 import l1_replay

SWEEPS = """
import torch, triton, triton.language as tl

@triton.jit
def sweeps(x, y, TIMES: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(TIMES):
        for block in range(BLOCKS):
            total += tl.load(x + (row * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    for block in range(BLOCKS):
        at = row * BLOCKS + block
        total += tl.load(x + at * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
        tl.store(y + at * BLOCK + tl.arange(0, BLOCK), total)

@triton.jit
def columns(x, y, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, ROWS)[:, None] * WIDTH + column * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(y + at, tl.load(x + at))

@triton.jit
def square_tiles(x, y, HIGH: tl.constexpr, WIDE: tl.constexpr):
    tile = tl.arange(0, 16)[:, None] * WIDE * 16 + tl.arange(0, 16)[None, :]
    x += tl.program_id(0) * HIGH * WIDE * 256
    total = tl.zeros((16, 16), tl.float32)
    for row in range(HIGH):
        for column in range(WIDE):
            total += tl.load(x + row * WIDE * 256 + column * 16 + tile)
    for column in range(WIDE):
        for row in range(HIGH):
            total += tl.load(x + (HIGH - 1 - row) * WIDE * 256 + column * 16 + tile)
    tl.store(y + tl.program_id(0) * 256 + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], total)

def tiles(device="cuda"):
    x = torch.empty(64, 7 * 16, 10 * 16, device=device)
    y = torch.empty(64, 16, 16, device=device)
    square_tiles[(64,)](x, y, HIGH=7, WIDE=10)
    return y

@triton.jit
def wrapped_rows(x, y, M, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) // COLUMNS, tl.program_id(0) % COLUMNS
    rows = (row * BLOCK + tl.arange(0, BLOCK)) % M
    tile = tl.load(x + rows[:, None] * WIDTH + column * 64 + tl.arange(0, 64)[None, :])
    tl.store(y + tl.program_id(0) * BLOCK * 64 + tl.arange(0, BLOCK)[:, None] * 64 + tl.arange(0, 64)[None, :], tile)

def wrapped(m=200, columns=32, device="cuda"):
    x = torch.empty(m, columns * 64, device=device)
    blocks = triton.cdiv(m, 16)
    y = torch.empty(blocks * columns, 16, 64, device=device)
    wrapped_rows[(blocks * columns,)](x, y, m, WIDTH=columns * 64, COLUMNS=columns, BLOCK=16)
    return y

@triton.jit
def same_columns(x, y, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)[:, None] * STEPS * BLOCK
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for step in range(STEPS):
        total += tl.load(x + rows + step * BLOCK + tl.arange(0, BLOCK)[None, :])
    tl.store(y + tl.program_id(0) * BLOCK * BLOCK + tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], total)

def drifting(programs=400, device="cuda"):
    x, y = torch.empty(64, 1024, device=device), torch.empty(programs, 64, 64, device=device)
    same_columns[(programs,)](x, y, STEPS=16, BLOCK=64)
    return y

def own(rows=132, times=3, device="cuda"):
    x = torch.empty(rows, 16, 4096, device=device)
    y = torch.empty_like(x)
    sweeps[(rows,)](x, y, TIMES=times, BLOCKS=16, BLOCK=4096)
    return y

def tall(width=8192, device="cuda"):
    x = torch.empty(64, width, device=device)
    y = torch.empty_like(x)
    columns[(width // 64,)](x, y, ROWS=64, WIDTH=width, BLOCK=64)
    return y
"""
BYTES = 132 * 16 * 4096 * 4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweeps.py"
    path.write_text(SWEEPS)
    return path


def of_l2(tmp_path: Path, capacity: int) -> str:
    path = tmp_path / "machine.toml"
    model = 'partitions = 1\ndirty_share = 1.0\ncapacity_spread = 0.0\nskew_spread = 0.0\nsource = "test"'
    path.write_text(f'preset = "H200"\n[levels.l2]\ncapacity_bytes = {capacity}\n[l2_model]\n{model}\n')
    return str(path)


def test_sweeps_that_fit_are_read_once(file: Path, tmp_path: Path) -> None:
    """132 programs at once, 256 kB each: 34.6 MB."""
    found = ioaware.simulate(f"{file}:own", machine=of_l2(tmp_path, 100_000_000))
    assert found.hbm is not None
    assert found.hbm.read_bytes == BYTES


def test_sweeps_that_do_not_fit_are_read_each_time(file: Path, tmp_path: Path) -> None:
    """Three sweeps of nested loops and one of a single loop.

    The same program reads four times.
    """
    found = ioaware.simulate(f"{file}:own", machine=of_l2(tmp_path, 10_000_000))
    assert found.hbm is not None
    assert found.hbm.read_bytes == 4 * BYTES
    assert found.simulations[0] is not None
    tensor = next(one for one in found.simulations[0].tensors if one.tensor == "x")
    assert tensor.excess_bytes["capacity"] == 3 * BYTES
    assert "the same program" in tensor.reason


def test_tiles_of_columns_cover_the_matrix_once(file: Path, tmp_path: Path) -> None:
    found = ioaware.simulate(f"{file}:tall", machine=of_l2(tmp_path, 10_000))
    assert found.hbm is not None
    assert (found.hbm.read_bytes, found.hbm.write_bytes) == (64 * 8192 * 4, 64 * 8192 * 4)


def test_one_partition_holds_what_two_do_not(file: Path, tmp_path: Path) -> None:
    """34.6 MB are swept three times and as much is written.

    Two partitions hold part of it twice.
    """
    path = Path(of_l2(tmp_path, 38_000_000))
    one = ioaware.simulate(f"{file}:own", machine=str(path)).hbm
    path.write_text(path.read_text().replace("partitions = 1", "partitions = 2"))
    two = ioaware.simulate(f"{file}:own", machine=str(path)).hbm
    assert one is not None
    assert two is not None
    assert BYTES <= one.read_bytes < two.read_bytes <= 4 * BYTES


@pytest.mark.parametrize(("capacity", "times"), [(100_000_000, 1), (10_000, 2)])
def test_groups_of_adjacent_tiles_move_the_same_bytes(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capacity: int, times: int
) -> None:
    """64 programs sweep tiles of 16 x 16 along rows, then along columns."""
    machine, name, bytes_ = of_l2(tmp_path, capacity), f"{file}:tiles", 64 * 112 * 160 * 4
    single = ioaware.simulate(name, machine=machine).hbm
    monkeypatch.setattr(streams, "MAX_TILES", 1500)
    calls: list[int] = []
    group = streams.joined
    monkeypatch.setattr(streams, "joined", lambda part, stride, tiles: calls.append(tiles) or group(part, stride, tiles))
    grouped = ioaware.simulate(name, machine=machine).hbm
    assert single is not None
    assert grouped is not None
    assert (single.read_bytes, grouped.read_bytes) == (times * bytes_, times * bytes_)
    assert {4, 2, 3} <= set(calls), "groups of four, and what is left of ten and seven tiles"


def test_rows_that_wrap_around_have_few_shapes(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """416 programs have tiles at 13 rows, of two shapes: the last tile wraps around."""
    templates, shapes = list[object](), list[int]()

    def template(rows: streams._Rows, *given: Any) -> tuple[Rectangle, ...]:
        templates.append(rows)
        return made(rows, *given)

    def all_shapes(tiles: Sequence[tuple[Rectangle, ...]]) -> Shapes:
        found = distinct_shapes(tiles)
        shapes.append(len(found.parts))
        return found

    made = streams._Rows._template
    monkeypatch.setattr(streams._Rows, "_template", template)
    monkeypatch.setattr(streams, "distinct_shapes", all_shapes)
    hbm = ioaware.simulate(f"{file}:wrapped", machine=of_l2(tmp_path, 50_000_000)).hbm
    assert hbm is not None
    assert hbm.read_bytes == 200 * 2048 * 4
    assert max(shapes) == 2
    assert len(templates) < 40 * len(shapes)


def test_a_variant_that_is_too_large_is_left_out(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 programs that sweep in step load 16 tiles; with skew each loads its own."""
    monkeypatch.setattr(streams, "MAX_EXECUTIONS", 1000)
    monkeypatch.setattr(l1_replay, "MAX_EVENTS", 0)
    found = ioaware.simulate(f"{file}:drifting", machine="H200")
    assert found.hbm is not None
    assert found.hbm.read_bytes == 64 * 1024 * 4
    assert any("ranges leave out that programs may drift apart" in note for note in found.notes)
