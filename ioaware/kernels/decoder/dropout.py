"""Drop elements by a counter-based generator.

The mask is a function of (head, query, key), recomputed and never stored.

Philox 4x32-10 (Salmon et al. 2011, Parallel Random Numbers: As Easy as 1, 2, 3), the generator of Triton and of torch's CUDA
back end: key = seed of the head, counter = row * kv_len + column.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import tile_side

ROUNDS = 10
ROUND_A, ROUND_B = 0xD2511F53, 0xCD9E8D57
KEY_A, KEY_B = 0x9E3779B9, 0xBB67AE85
LOW = 0xFFFFFFFF


def threshold(percent: int) -> int:
    """Return the 31-bit number below which a pair is dropped."""
    return percent * 2**31 // 100


@triton.jit
def kept_pairs(seed, row, col, kv_len, limit, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return True for the pairs of a tile [B_r, B_c] that dropout keeps."""
    rows = row + tl.arange(0, tile_side(BLOCK_M))
    cols = col + tl.arange(0, tile_side(BLOCK_N))
    bits = tl.randint(seed, rows[:, None] * kv_len + cols[None, :])
    return (bits.to(tl.uint32, bitcast=True) >> 1).to(tl.int32) >= limit


def kept(seed: int | torch.Tensor, rows: torch.Tensor, cols: torch.Tensor, kv_len: int, percent: int) -> torch.Tensor:
    """Return `kept_pairs` for rows [n, 1] and columns [1, m], computed by torch.

    Seeds [..., 1, 1] give a mask each.
    """
    c0 = (rows * kv_len + cols) & LOW
    c1 = c2 = c3 = torch.zeros_like(c0)
    k0, k1 = seed & LOW, seed >> 32 & LOW
    for _ in range(ROUNDS):
        c0, c1, c2, c3 = (
            _high(ROUND_B, c2) ^ c1 ^ k0,
            (c2 * ROUND_B) & LOW,
            _high(ROUND_A, c0) ^ c3 ^ k1,
            (c0 * ROUND_A) & LOW,
        )
        k0, k1 = (k0 + KEY_A) & LOW, (k1 + KEY_B) & LOW
    return c0 >> 1 >= threshold(percent)


def _high(factor: int, x: torch.Tensor) -> torch.Tensor:
    """Return the upper 32 bits of the 64-bit product of two 32-bit numbers."""
    return (factor * (x >> 16) + (factor * (x & 0xFFFF) >> 16)) >> 16
