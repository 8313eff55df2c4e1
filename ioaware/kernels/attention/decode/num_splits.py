"""How decode splits the keys: so many programs that the GPU is full once and evenly, each with enough loads in flight."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ioaware.kernels.attention.launching.on_chip_limits import padded

MAX_DECODE_ROWS = 16
"""The longest seq_len that decode is for: with more rows than this, tiles of rows fill a GPU and its matmuls."""
ROWS_AT_ONCE = 64
"""Rows of a tile: the rows of all query heads of a key head, and seq_len of each."""
TILE_BYTES = 32 * 1024
"""K of a column block, and V likewise: with two such pairs in shared memory, 64 KiB an SM are always on their way."""
MAX_BLOCK_N = 128
MAX_WAVES = 8
SM_SPEED = 1.5
"""How many times its even share of the memory's bandwidth one SM can read (measured: 1.58); fewer programs than SMs cost
nothing while this makes up for it."""
WAVE_COST = 0.025
"""What each wave of programs after the first costs, as a share of the whole: nothing is on its way to an SM between a
program and the next (measured: 2.8 us, of 110 to 150)."""
HALF_COST = 0.02
"""What column blocks of half the size cost, in programs of which twice as many fit a GPU; taken for one wave of them only."""


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
    """Into how many splits each of so many programs falls on a GPU that runs `resident` programs on a processor at a time; and
    the time that all of them take, of which 1 is what the bytes take."""
    programs = int(programs)
    most = max(1, MAX_WAVES * processors * resident // programs)
    times = [(relative_time(programs * splits, processors, resident), -splits) for splits in range(1, most + 1)]
    time, fewest = min(times)
    return time, -fewest


def relative_time(programs: int, processors: int, resident: int) -> float:
    """Of equal programs: whole waves at the speed of the memory, the last as fast as the processors that have some of it."""
    waves, rest = divmod(programs, processors * resident)
    last = max(rest / (processors * resident), -(-rest // processors) / resident / SM_SPEED)
    return (waves + last) * processors * resident / programs + WAVE_COST * (waves + (rest > 0) - 1)


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
