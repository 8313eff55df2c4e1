"""What the L1s serve does not reach the L2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ioaware
from ioaware.simulation.addresses.address_blocks import Rectangle
from ioaware.simulation.l1.behind_l1 import _missing
from ioaware.simulation.streams import ReferenceStream

TILES = """
import torch, triton, triton.language as tl

@triton.jit
def tiles(x, y, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    for number in range(TIMES):
        value = tl.load(x + at)
        tl.store(y + (program * TIMES + number) * BLOCK + tl.arange(0, BLOCK), value)

def held(count=1056, times=16, device="cuda"):
    x, y = torch.empty(count * 1024, device=device), torch.empty(count * times * 1024, device=device)
    tiles[(count,)](x, y, TIMES=times, BLOCK=1024)
    return y
"""


def stream(programs: list[int], addresses: list[int]) -> ReferenceStream:
    times = np.arange(len(programs), dtype=np.float64)
    part = (Rectangle(0, 1, 128, 128),)
    return ReferenceStream(np.array(addresses), times, np.array(programs), np.ones(len(programs), dtype=np.int64), part)


def test_all_that_is_left_of_perfect_hits_is_the_first_read_of_each_program() -> None:
    one = stream([0, 0, 1, 0, 1], [0, 0, 0, 128, 0])
    (left,) = _missing([one], 1.0)
    assert list(zip(left.program.tolist(), left.base.tolist(), strict=True)) == [(0, 0), (1, 0), (0, 128)]


@pytest.mark.parametrize("hits", [0.0, 0.25, 0.5, 0.75])
def test_as_many_are_left_out_as_hit(hits: float) -> None:
    programs, addresses = np.divmod(np.arange(40_000), 100)
    one = stream(programs.tolist(), (addresses % 10 * 128).tolist())
    (left,) = _missing([one], hits)
    assert left.base.size / one.base.size == pytest.approx(1 - hits, abs=0.02)


def test_runs_of_another_length_are_no_repeated_reads() -> None:
    one = stream([0, 0, 0], [0, 0, 0])
    runs = ReferenceStream(one.base, one.time, one.program, one.partitions, one.parts, np.array([4, 8, 4]), 128, 1.0)
    (left,) = _missing([runs], 1.0)
    assert left.count is not None
    assert left.count.tolist() == [4, 8]


def test_tiles_in_the_l1_are_read_from_memory_about_once(tmp_path: Path) -> None:
    """What a program reads first is never left out.

    A few lines leave the L2 before the L1 loses them.
    """
    path = tmp_path / "tiles.py"
    path.write_text(TILES)
    found = ioaware.simulate(f"{path}:held", machine="H200")
    assert found.hbm is not None
    assert found.hbm.read_bytes is not None
    assert 1056 * 4096 <= found.hbm.read_bytes < 1.05 * 1056 * 4096
    assert found.requested is not None
    assert found.requested.read_sector_bytes is not None
    assert 1056 * 4096 <= found.requested.read_sector_bytes < 2 * 1056 * 4096
