"""Copies past the L1 whose instructions share sectors are found.

Sectors by hand, as an H200 counts them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

from ioaware.machine import find_machine
from ioaware.simulation.simulate import simulate
from ioaware.targets.target import load_target

ROWS = COLUMNS = 64
"""Of a tile.

Its float32 rows share the layout of float16 rows, so a thread holds 32 adjacent bytes of them.
"""


@triton.jit
def scaled_product(a, scale, b, out, tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    at = rows * COLUMNS + columns
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for tile in range(tiles):
        begin = tile * ROWS * COLUMNS
        scaled = tl.load(a + begin + at) * tl.load(scale + begin + at)
        total += tl.dot(scaled.to(tl.float16), tl.load(b + begin + at))
    tl.store(out + at, total)


def products(tiles: int = 8, scales: str = "float32", device: str = "cuda") -> Callable[[], object]:
    a, b = (torch.empty(tiles, ROWS, COLUMNS, device=device, dtype=torch.float16) for _ in range(2))
    scale = torch.empty(tiles, ROWS, COLUMNS, device=device, dtype=getattr(torch, scales))
    out = torch.empty(ROWS, COLUMNS, device=device)
    return lambda: scaled_product[(1,)](a, scale, b, out, tiles, ROWS=ROWS, COLUMNS=COLUMNS)


def test_two_copies_of_one_sector_fetch_it_twice() -> None:
    target = load_target(products)
    fetched = {}
    for scales, twice in (("float32", 8 * ROWS * COLUMNS * 4), ("float16", 0)):
        done = simulate(target, target.resolve({"scales": scales}), machine=find_machine("H200"))
        once = 8 * ROWS * COLUMNS * (2 + 2 + (4 if scales == "float32" else 2))
        assert done.requested is not None
        assert done.requested.read_sector_bytes == once + twice
        assert done.launches[0].requested == done.requested
        fetched[scales] = [note for note in done.launches[0].notes if "past the L1" in note]
    assert "counted once: copies past the L1 share them, and a counter sees 2 times as many" in fetched["float32"][0]
    assert not fetched["float16"]
