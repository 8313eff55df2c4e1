"""Sector counts against byte-by-byte counts.

The accesses are misaligned, transposed and scattered.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.sectors import count_sectors


def by_bytes(addresses: list[int], mask: list[bool], width: int) -> int:
    return len(
        {(address + byte) // 32 for address, active in zip(addresses, mask, strict=True) if active for byte in range(width)}
    )


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.data())
def test_any_access(data: st.DataObject) -> None:
    width = data.draw(st.sampled_from([1, 2, 4, 8]))
    count = data.draw(st.integers(1, 40))
    addresses = data.draw(st.lists(st.integers(2**40, 2**40 + 600), min_size=count, max_size=count))
    if data.draw(st.booleans()):
        addresses = [address - address % width for address in addresses]
    mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    got = count_sectors(np.array(addresses, dtype=np.uint64), np.array(mask), width)
    assert got == by_bytes(addresses, mask, width)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("row_bytes", [16, 40, 64, 200])
def test_tiles_in_either_order(row_bytes: int, transposed: bool) -> None:
    tile = np.arange(8, dtype=np.uint64)[:, None] * np.uint64(row_bytes) + np.arange(4, dtype=np.uint64)[None, :] * np.uint64(4)
    mask = (np.arange(8)[:, None] < 7) & (np.arange(4)[None, :] < 3)
    if transposed:
        tile, mask = tile.T, mask.T
    assert count_sectors(tile, mask, 4) == by_bytes(tile.ravel().tolist(), mask.ravel().tolist(), 4)


def test_no_active_lane_touches_nothing() -> None:
    assert count_sectors(np.zeros(4, dtype=np.uint64), np.zeros(4, dtype=bool), 4) == 0
