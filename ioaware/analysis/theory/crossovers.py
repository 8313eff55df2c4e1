"""Crossovers: when FlashAttention moves fewer elements than standard attention.

They are given exactly and as N grows.

Each condition compares exact counts with the idealised Algorithm 0, 4 N^2 + 4 N d elements; no constant is left out.
N_k = N and no mask throughout.
"""

from __future__ import annotations

from ioaware.analysis.theory.counting import d

FLASH1_MEMORY = 3 * d**2 + 4 * d
"""M above which Algorithm 1 beats standard attention: B_c > (3 d + 4) / 4.

It has the paper's blocks, and N grows.
"""

FLASH2_MEMORY = 2 * d**2
"""M above which FlashAttention-2 with B_r = ceil(M / 4d) does: B_r > d / 2."""

FLASH1_BACKWARD_MEMORY = (20 * d**2 + 8 * d) / 7
"""M above which Algorithm 4 beats the standard backward pass.

It has the paper's blocks.
"""


def flash1_beats_standard(seq_len: int, head_dim: int, column_blocks: int) -> bool:
    """Compare Algorithm 1 with T_c = `column_blocks` to Algorithm 0.

    The condition is T_c (3 d + 4) < 4 N + d - 2.

    One pass (T_c = 1) wins if N > (d + 3) / 2: for shorter sequences standard attention wins at any M.
    """
    return column_blocks * (3 * head_dim + 4) < 4 * seq_len + head_dim - 2


def flash2_beats_standard(seq_len: int, head_dim: int, row_blocks: int) -> bool:
    """Compare FlashAttention-2 with T_r = `row_blocks` to Algorithm 0.

    The condition is 2 d T_r < 4 N + 2 d - 1.

    One pass always wins.
    """
    return 2 * head_dim * row_blocks < 4 * seq_len + 2 * head_dim - 1


def flash1_backward_beats_standard(seq_len: int, head_dim: int, column_blocks: int) -> bool:
    """Compare Algorithm 4 with T_c = `column_blocks` to Algorithm 3.

    The condition is T_c (5 d + 2) < 7 N + d.
    """
    return column_blocks * (5 * head_dim + 2) < 7 * seq_len + head_dim


def flash2_backward_beats_standard(seq_len: int, head_dim: int, column_blocks: int) -> bool:
    """Compare FlashAttention-2's Algorithm 2 to Algorithm 3.

    It is without its needless loads, and the condition is T_c (4 d + 2) + 1 < 7 N + d.
    """
    return column_blocks * (4 * head_dim + 2) + 1 < 7 * seq_len + head_dim


def split_beats_standard(kv_len: int, head_dim: int, splits: int) -> bool:
    """Compare S splits of the keys and their combiner to Algorithm 0.

    It is for one query, and the condition is 4 N_k > S (3 d + 2) - d + 1.
    """
    return 4 * kv_len > splits * (3 * head_dim + 2) - head_dim + 1


def flash1_beats_standard_bytes(
    seq_len: int,
    head_dim: int,
    column_blocks: int,
    *,
    input_bytes: int,
    output_bytes: int,
    score_bytes: int,
    probability_bytes: int,
) -> bool:
    """Compare Algorithm 1 to Algorithm 0 in bytes.

    L and m are fp32, Q, K, V of `input_bytes`.

    O has `output_bytes` in both. T_c (b d + 2 b_o d + 16) + b_o d + 8 + 2 b d < 2 N (b_S + b_P) + 3 b d + b_o d.
    """
    statistics = 16  # l and m read and written, 4 bytes each
    flash1 = column_blocks * ((input_bytes + 2 * output_bytes) * head_dim + statistics)
    flash1 += output_bytes * head_dim + 8 + 2 * input_bytes * head_dim  # line 2, and K and V once
    standard = 2 * seq_len * (score_bytes + probability_bytes) + (3 * input_bytes + output_bytes) * head_dim
    return flash1 < standard


def first_flash1_memory(seq_len: int, head_dim: int) -> int | None:
    """Return the smallest M in elements that makes Algorithm 1 win.

    Its block is B_c = ceil(M / 4d), and None stands for none.
    """
    passes = (4 * seq_len + head_dim - 3) // (3 * head_dim + 4)  # the most column blocks that still win
    return _first_memory(seq_len, head_dim, passes)


def first_flash2_memory(seq_len: int, head_dim: int) -> int | None:
    """Return the smallest M in elements that makes FlashAttention-2 win.

    Its block is B_r = ceil(M / 4d).
    """
    passes = (4 * seq_len + 2 * head_dim - 2) // (2 * head_dim)
    return _first_memory(seq_len, head_dim, passes)


def _first_memory(seq_len: int, head_dim: int, passes: int) -> int | None:
    """Return the smallest M with ceil(N / ceil(M / 4d)) <= passes."""
    if passes < 1:
        return None
    block = -(-seq_len // passes)
    return 4 * head_dim * (block - 1) + 1
