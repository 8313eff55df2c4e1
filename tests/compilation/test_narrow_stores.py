"""Stores whose instructions share sectors are found in the compiled kernel.

Sectors by hand.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.machine import find_machine
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


def test_simulate_adds_the_requests_that_share_sectors_to_its_range() -> None:
    """Rows of 4,004 bytes: 1.24 requests of a sector, as in the note above."""
    target = load_target(rows_of)
    done = simulate(target, target.resolve({"cols": 1001, "dtype": "float32"}), machine=find_machine("H200"))
    (launch,), (how,) = done.launches, done.simulations
    assert how is not None
    assert launch.requested is not None
    assert how.shared_sector_bytes == pytest.approx(0.24 * (launch.requested.write_sector_bytes or 0), rel=0.01)
