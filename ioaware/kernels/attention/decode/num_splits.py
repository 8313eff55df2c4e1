"""Choose how decode splits the keys.

The programs fill the GPU once and evenly, each with enough loads in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ioaware.kernels.attention.launching.on_chip_limits import padded

MAX_DECODE_ROWS = 16
"""Longest seq_len for decode: more rows fill a GPU without splits."""
ROWS_AT_ONCE = 64
"""Rows of a tile: the rows of all query heads of a key head, and seq_len of each."""
TILE_BYTES = 32 * 1024
"""Bytes of K, and of V, in a column block.

With two such pairs in shared memory, 64 KiB per SM are always in flight.
"""
MAX_BLOCK_N = 128
MAX_WAVES = 8
SM_SPEED = 1.5
"""HBM bandwidth of one SM, in even shares of the GPU's.

Idle SMs cost nothing while this makes up for them.
"""
WAVE_COST = 0.025
"""Cost of each wave of programs after the first, as a share of the whole.

Between two programs an SM has no load in flight.
"""
HALF_COST = 0.02
"""Cost of column blocks of half the size, with twice as many programs.

They are chosen for a single wave only.
"""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Tiles and splits of one decode."""

    tiles: int
    rows: int
    width: int
    block_n: int
    splits: int
    num_warps: int
    num_stages: int

    def splits_of(self, kv_len: int) -> int:
        """Return the planned number of splits, but none without a column block."""
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
    """Return the plan for `rows` rows on each key head, batch included.

    There are `key_heads` key heads; `splits` is chosen unless given.
    """
    width = padded(head_dim)
    no_tensor_cores = element_bytes == 4  # float32 matmuls need smaller tiles and more warps
    pair_bytes = min(2 * TILE_BYTES, shared_bytes // 3)  # K and V of a block, with two such pairs beside Q
    pair_bytes //= 2 if no_tensor_cores else 1
    block_n = max(16, min(MAX_BLOCK_N, _floor_power_of_2(pair_bytes // (2 * width * element_bytes))))
    tile = min(16 if no_tensor_cores else ROWS_AT_ONCE, padded(rows))
    tiles = -(-rows // tile)
    resident = max(1, 2 * TILE_BYTES // (2 * block_n * width * element_bytes))
    if splits is None:
        time, splits = best_splits(key_heads * tiles, processors, resident)
        half_time, half_splits = best_splits(key_heads * tiles, processors, 2 * resident)
        one_wave = key_heads * tiles * half_splits <= 2 * resident * processors
        if one_wave and half_time + HALF_COST < time and block_n >= 32 and resident <= 2:
            block_n, splits = block_n // 2, half_splits
    return SplitPlan(
        tiles=tiles,
        rows=tile,
        width=width,
        block_n=block_n,
        splits=max(1, splits),
        num_warps=8 if (width > 128 and tile == ROWS_AT_ONCE) or (width > 64 and no_tensor_cores) else 4,
        num_stages=3,
    )


def best_splits(programs: int, processors: int, resident: int) -> tuple[float, int]:
    """Return the relative time and the number of splits per program.

    The GPU runs `resident` programs per SM.

    1 is the time of the bytes alone.
    """
    programs = int(programs)
    most = max(1, MAX_WAVES * processors * resident // programs)
    times = [(relative_time(programs * splits, processors, resident), -splits) for splits in range(1, most + 1)]
    time, fewest = min(times)
    return time, -fewest


def relative_time(programs: int, processors: int, resident: int) -> float:
    """Return the time of equal programs, relative to their bytes.

    Full waves run at HBM speed, the last at that of its busy SMs.
    """
    waves, rest = divmod(programs, processors * resident)
    last = max(rest / (processors * resident), -(-rest // processors) / resident / SM_SPEED)
    return (waves + last) * processors * resident / programs + WAVE_COST * (waves + (rest > 0) - 1)


def row_alignment(*tensors: torch.Tensor) -> int:
    """Return the largest of 16, 8 and 1 that divides every stride but the last.

    Strides are in elements.
    """
    strides = [stride for tensor in tensors for stride in tensor.stride()[:3]]
    return next((size for size in (16, 8) if all(stride % size == 0 for stride in strides)), 1)


def decode_refusal_reason(q: torch.Tensor) -> str | None:
    """Return why decode cannot take these queries, or None."""
    if q.shape[2] > MAX_DECODE_ROWS:
        return f"it is for up to {MAX_DECODE_ROWS} queries a head, not {q.shape[2]}"
    return None


def _floor_power_of_2(number: int) -> int:
    """Return the largest power of two up to number."""
    return 1 << max(0, number.bit_length() - 1)
