"""The number of loads that merge where an argument is 1, and its cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ioaware
from ioaware import disk_cache
from ioaware.compilation.instructions import merged_loads


@triton.jit
def neighbours_kernel(x, out, n, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at * stride, inside) + tl.load(x + at, inside), inside)


def neighbours(n: int, stride: int) -> Any:
    x, out = torch.empty(n * stride, device="cuda"), torch.empty(n, device="cuda")
    return lambda: neighbours_kernel[(triton.cdiv(n, 128),)](x, out, n, stride, BLOCK=128)


def conditions(**sizes: int) -> list[str]:
    return [note for note in ioaware.derive(neighbours, **sizes).notes if "makes fewer loads" in note]


def test_the_number_of_merged_loads_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOAWARE_CACHE_DIR", str(tmp_path))
    plain, counted = merged_loads._removed, list[object]()

    def removed(*given: Any) -> int:
        counted.append(given)
        return plain(*given)

    monkeypatch.setattr(merged_loads, "_removed", removed)
    first = conditions(n=1000, stride=3)
    assert len(first) == 1
    assert "stride" in first[0]
    assert counted
    counted.clear()
    assert conditions(n=1000, stride=3) == first
    assert not counted
    for path in tmp_path.glob("*.json"):  # a damaged file is no number
        path.write_text("[]")
    assert conditions(n=1000, stride=3) == first
    assert counted


def test_without_a_cache_loads_are_counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[object] = []
    monkeypatch.setattr(disk_cache, "store", lambda *given: stored.append(given))
    monkeypatch.setattr(merged_loads, "toolchain", lambda _: None)
    assert conditions(n=1000, stride=3)
    assert not [given for given in stored if type(given[1]) is int]
