"""Accesses of very many shapes: runs of bytes change no prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ioaware.machine import find_machine
from ioaware.simulation import streams
from ioaware.simulation.addresses import runs_of_lanes
from ioaware.simulation.addresses.runs_of_lanes import ShapeRuns, runs
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import load_target

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * width + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < row
    tl.store(y + at, tl.load(x + at, inside), inside)


@triton.jit
def strided_kernel(x, y, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at * STRIDE))


def triangle(width=256, device="cuda"):
    x, y = (torch.empty(width, width, device=device) for _ in range(2))
    return lambda: rows_kernel[(width,)](x, y, width, BLOCK=width)


def strided(n=65536, stride=16, device="cuda"):
    x, y = torch.empty(n * stride, device=device), torch.empty(n, device=device)
    return lambda: strided_kernel[(n // 256,)](x, y, STRIDE=stride, BLOCK=256)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.py"
    path.write_text(KERNELS)
    return path


def simulated(file: Path, name: str, **params: int) -> Simulated:
    target = load_target(f"{file}:{name}")
    return simulate(target, target.resolve(params), machine=find_machine("H200"), ranges=False)


@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_the_bytes_of_the_lanes(seed: int) -> None:
    random = np.random.default_rng(seed)
    offsets, active = random.integers(-40, 40, (30, 24)) * 4, random.random((30, 24)) < 0.6
    row, start, size = runs(offsets, active, 4)
    shapes = ShapeRuns(np.searchsorted(row, np.arange(30)), np.bincount(row, minlength=30), start, size)
    found: list[set[int]] = [set() for _ in range(60)]
    group = np.concatenate((np.arange(30), np.arange(30)[::-1]))
    for execution, begin, bytes_ in shapes.pieces(group):
        assert bytes_.bit_count() == 1
        for one, at in zip(execution.tolist(), begin.tolist(), strict=True):
            piece = set(range(at, at + bytes_))
            assert not piece & found[one]
            found[one] |= piece
    wanted = [{byte for at in offsets[k][active[k]].tolist() for byte in range(at, at + 4)} for k in range(30)]
    assert found == [wanted[k] for k in group.tolist()]


def test_runs_predict_what_templates_predict(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = simulated(file, "triangle")
    monkeypatch.setattr(streams, "MAX_TEMPLATES", 4)
    after = simulated(file, "triangle")
    assert before.hbm == after.hbm
    assert before.hbm is not None
    assert before.hbm.read_bytes == pytest.approx(4 * 256 * 255 / 2, rel=0.02)
    assert [one.tensors for one in after.simulations if one] == [one.tensors for one in before.simulations if one]


def test_too_many_lanes_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_TEMPLATES", 4)
    monkeypatch.setattr(runs_of_lanes, "MAX_ADDRESSES", 1000)
    with pytest.raises(Exception, match="256 shapes of one access of 256 lanes are too many"):
        simulated(file, "triangle")


@pytest.mark.parametrize(("stride", "moved"), [(1, 4), (2, 8), (8, 32), (16, 64), (32, 64)])
def test_elements_apart_are_read_in_pieces_of_64_bytes(file: Path, stride: int, moved: int) -> None:
    """An H100 reads a sector of 32 bytes alone as 64, as `h100-replacement` says."""
    found = simulated(file, "strided", stride=stride)
    assert found.hbm is not None
    assert found.hbm.read_bytes == 65536 * moved
    assert found.hbm.write_bytes == 65536 * 4
