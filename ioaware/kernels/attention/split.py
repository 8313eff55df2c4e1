"""How decode splits the keys: so many programs that the GPU is full once and evenly, each with enough loads in flight."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ioaware.kernels.attention.limits import padded

MAX_DECODE_ROWS = 16
"""The longest seq_len that decode is for: with more rows than this, tiles of rows fill a GPU and its matmuls."""
ROWS_AT_ONCE = 64
"""Rows of a tile: the rows of all query heads of a key head, and seq_len of each."""
TILE_BYTES = 32 * 1024
"""K of a column block, and V likewise: with two such pairs in shared memory, 64 KiB an SM are always on their way."""
MAX_BLOCK_N = 128
MAX_WAVES = 8
BUSY_ENOUGH = 0.9
"""The share of a GPU's program slots that must have a program, over all waves, for no more waves to be tried."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The tiles and the splits of one decode."""

    tiles: int
    rows: int
    width: int
    block_n: int
    splits: int
    num_warps: int
    num_stages: int

    def splits_of(self, kv_len: int) -> int:
        """As many splits as planned, but none without a column block."""
        return min(self.splits, -(-kv_len // self.block_n))


def plan_splits(
    key_heads: int,
    rows: int,
    head_dim: int,
    element_bytes: int,
    *,
    processors: int,
    shared_bytes: int,
    splits: int | None = None,
) -> SplitPlan:
    """The plan for `rows` rows on each of `key_heads` key heads, batch included; with so many splits, if given."""
    width = padded(head_dim)
    no_tensor_cores = element_bytes == 4  # those matmuls want smaller tiles and more warps
    pair_bytes = min(2 * TILE_BYTES, shared_bytes // 3)  # K and V of a block, with two such pairs beside Q
    pair_bytes //= 2 if no_tensor_cores else 1
    block_n = max(16, min(MAX_BLOCK_N, _floor_power_of_2(pair_bytes // (2 * width * element_bytes))))
    tile = min(16 if no_tensor_cores else ROWS_AT_ONCE, padded(rows))
    tiles = -(-rows // tile)
    at_once = processors * max(1, 2 * TILE_BYTES // (2 * block_n * width * element_bytes))
    return SplitPlan(
        tiles=tiles,
        rows=tile,
        width=width,
        block_n=block_n,
        splits=even_splits(key_heads * tiles, at_once) if splits is None else max(1, splits),
        num_warps=8 if (width > 128 and tile == ROWS_AT_ONCE) or (width > 64 and no_tensor_cores) else 4,
        num_stages=3,
    )


def even_splits(programs: int, at_once: int) -> int:
    """Into how many splits each of so many programs falls, so that they fill a GPU on which `at_once` run at a time: in one
    wave, or in as few more as leave few of the last wave's places empty."""
    programs = int(programs)
    choices = [(waves * at_once, splits) for waves in range(1, MAX_WAVES + 1) if (splits := waves * at_once // programs) > 0]
    busy = [splits for places, splits in choices if programs * splits >= BUSY_ENOUGH * places]
    return busy[0] if busy else max(choices, key=lambda choice: choice[1] / choice[0], default=(0, 1))[1]


def row_alignment(*tensors: torch.Tensor) -> int:
    """The largest of 16, 8 and 1 that divides every stride but the last, in elements."""
    strides = [stride for tensor in tensors for stride in tensor.stride()[:3]]
    return next((size for size in (16, 8) if all(stride % size == 0 for stride in strides)), 1)


def decode_refusal(q: torch.Tensor) -> str | None:
    """Why decode is not for these queries, or None."""
    if q.shape[2] > MAX_DECODE_ROWS:
        return f"it is for up to {MAX_DECODE_ROWS} queries a head, not {q.shape[2]}"
    return None


def _floor_power_of_2(number: int) -> int:
    return 1 << max(0, number.bit_length() - 1)
