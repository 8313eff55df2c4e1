"""Rows that programs load, store in place and load again, as an H200 counted them."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

import ioaware

ROWS = """
import torch, triton, triton.language as tl

@triton.jit
def aligned(x, out, cols, CHUNK: tl.constexpr):
    again(x + tl.program_id(0).to(tl.int64) * cols, out, cols, CHUNK)

@triton.jit(do_not_specialize=["cols", "start"])
def anywhere(x, out, cols, start, CHUNK: tl.constexpr):
    again(x + start + tl.program_id(0).to(tl.int64) * cols, out, cols, CHUNK)

@triton.jit
def again(row, out, cols, CHUNK: tl.constexpr):
    at, found = tl.arange(0, CHUNK), tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        value = tl.load(row + start + at)
        found = tl.maximum(found, tl.max(value.to(tl.float32), 0))
        tl.store(row + start + at, value)
    tl.debug_barrier()
    for start in range(0, cols, CHUNK):
        value = tl.load(row + start + at)
        found = tl.maximum(found, tl.max(value.to(tl.float32) * (1.0 + found), 0))
    tl.store(out + tl.program_id(0), found)

def stored(programs=132, cols=4096, start=-1, warps=4, device="cuda"):
    x = torch.empty(programs * cols + 16, device=device, dtype=torch.float16)
    out = torch.empty(programs, device=device)
    if start < 0:
        aligned[(programs,)](x, out, cols, CHUNK=4096, num_warps=warps)
    else:
        anywhere[(programs,)](x, out, cols, start, CHUNK=4096, num_warps=warps)
    return out
"""


@pytest.mark.parametrize("start", [None, 0, 1, 8])
def test_sectors_written_in_parts_are_requested_again(start: int | None, tmp_path: Path) -> None:
    """Of rows that begin inside a sector, a third is requested again.

    Aligned ones hit.
    Where narrow instructions write whole sectors, up to 0.09 are requested again, which the model leaves out.
    """
    path = tmp_path / "rows.py"
    path.write_text(ROWS)
    text = (files("ioaware") / "recorded" / "l1" / "h200-stores.json").read_text()
    like = {"elements": "float16", "start": start, "stores": "same", "evict_last": False, "row_bytes": 8192}
    counted = [one for one in json.loads(text)["launches"] if like.items() <= one.items()]
    assert len(counted) == 2
    for one in counted:
        params = {"programs": one["programs"], "start": -1 if start is None else start, "warps": one["warps"]}
        found = ioaware.simulate(f"{path}:stored", **params, cols=4096, machine="H200").requested
        assert found is not None
        assert found.read_sector_bytes is not None
        row_bytes = one["programs"] * one["row_bytes"]
        assert found.read_sector_bytes / row_bytes == pytest.approx(one["requested_read_bytes"] / row_bytes, abs=0.1)
