"""Rows that programs read twice with eviction policies, as an H200 counted them."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import ioaware

ROWS = """
import torch, triton, triton.language as tl

@triton.jit
def rows(x, y, out, cols, CHUNK: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, STORE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, CHUNK)
    found = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        value = tl.load(x + row * cols + start + at, eviction_policy=FIRST).to(tl.float32)
        found = tl.maximum(found, tl.max(value * (1.0 + found), 0))
    tl.debug_barrier()
    for start in range(0, cols, CHUNK):
        value = tl.load(x + row * cols + start + at, eviction_policy=SECOND).to(tl.float32)
        found = tl.maximum(found, tl.max(value * (1.0 + found), 0))
        if STORE:
            tl.store(y + row * cols + start + at, (value + found).to(y.dtype.element_ty))
    tl.store(out + row, found)

def again(count=128, cols=1024, chunk=1024, first="", second="", stores=False, warps=4, device="cuda"):
    x = torch.empty(count * cols, device=device, dtype=torch.float16)
    y, out = torch.empty_like(x), torch.empty(count, device=device)
    rows[(count,)](x, y, out, cols, CHUNK=chunk, FIRST=first, SECOND=second, STORE=stores, num_warps=warps)
    return out
"""


def launches(**like: object) -> list[dict[str, Any]]:
    text = (files("ioaware") / "recorded" / "l1" / "h200-evictions.json").read_text()
    return [one for one in json.loads(text)["launches"] if like.items() <= one.items()]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("rows") / "rows.py"
    path.write_text(ROWS)
    return f"{path}:again"


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "most"),
    [
        ("", "", 0.02),
        ("evict_last", "evict_first", 0.05),
        ("evict_last", "evict_last", 0.05),
        ("", "evict_first", 0.05),
        ("evict_first", "", 0.05),
    ],
)
def test_an_l1_serves_as_much_of_the_rows_as_was_counted(
    target: str, first: str, second: str, most: float, stores: bool
) -> None:
    """Shares of the repeated reads that hit are so far off on average.

    Rows take 64 to 256 KiB of an SM. By the model without evictions some are 0.4 off.
    """
    errors: list[float] = []
    for one in launches(first=first, second=second, stores=stores, warps=4):
        if not 64 << 10 <= one["programs"] * one["row_bytes"] <= 256 << 10:
            continue
        params = {"count": one["rows"], "cols": one["row_bytes"] // 2, "chunk": one["chunk_bytes"] // 2}
        done = ioaware.simulate(target, **params, first=first, second=second, stores=stores, warps=4, machine="H200")
        assert done.requested is not None
        assert done.requested.read_sector_bytes is not None
        again = one["rows"] * one["row_bytes"]
        errors.append(abs(done.requested.read_sector_bytes - one["requested_read_bytes"]) / again)
    assert len(errors) == 7
    assert sum(errors) / len(errors) < most
