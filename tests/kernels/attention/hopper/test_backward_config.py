"""Plans of the fused Hopper backward kernel.

The tests cover work by heads or blocks, pairing, the last round, and masks.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.kernels.attention.hopper.backward_pass.backward_config import BackwardTiling, last_round, masked_row_blocks

SMS = 132


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "batch_heads", "causal", "whole", "paired", "programs"),
    [
        (64, 512, 1024, False, True, 0, SMS),
        (64, 512, 1024, True, True, 960, SMS),
        (128, 512, 512, False, False, 0, SMS),  # the sums would not stay in the L2
        (128, 512, 512, True, True, 448, SMS),
        (64, 1024, 512, True, False, 480, SMS),
        (64, 512, 32, True, False, 0, 128),  # too few heads
        (64, 512, 140, True, False, 76, SMS),  # slightly more than one round
        (128, 4096, 64, True, False, 56, SMS),
        (128, 16384, 16, True, False, 14, SMS),
        (128, 16384, 16, False, False, 0, SMS),
        (128, 4096, 16, True, False, 0, SMS),  # at most four rounds: longest first (LPT)
    ],
)
def test_measured_sizes(
    head_dim: int, seq_len: int, batch_heads: int, causal: bool, whole: bool, paired: int, programs: int
) -> None:  # fmt: skip
    tiling = BackwardTiling.of(head_dim, seq_len, seq_len, 1, batch_heads, SMS, causal=causal)
    assert (tiling.whole, tiling.paired, min(tiling.work_items, SMS)) == (whole, paired, programs)
    heads = SMS if whole else batch_heads
    assert tiling.sums_shape == (heads, seq_len * head_dim)


def test_whole_heads_need_rows_that_the_first_column_block_reaches() -> None:
    seen, unseen = (BackwardTiling.of(64, 400, kv_len, 2, 132, SMS, causal=True) for kv_len in (400, 300))
    assert (seen.whole, unseen.whole) == (True, False)
    assert seen.sums_shape == (2 * SMS, 512 * 64)


@settings(derandomize=True, deadline=None)
@given(st.sampled_from([64, 128]), st.integers(1, 20000), st.integers(1, 3000), st.integers(1, 8), st.integers(1, 200))
def test_every_column_block_is_in_one_work_item(width: int, kv_len: int, batch_heads: int, group: int, processors: int) -> None:
    tiling = BackwardTiling.of(width, kv_len, kv_len, group, batch_heads, processors, causal=True)
    row_blocks, blocks, pairs, paired, others, _, _, share = tiling.schedule
    assert share == 0
    assert row_blocks * tiling.block_m >= kv_len > (row_blocks - 1) * tiling.block_m
    assert 0 <= paired <= batch_heads == paired + others
    assert 2 * pairs - blocks in (0, 1)
    assert tiling.work_items == (batch_heads if tiling.whole else pairs * paired + blocks * others)
    assert others > 0  # the kernel divides by it


@pytest.mark.parametrize(
    ("width", "seq_len", "kv_len", "group", "causal", "masked"),
    [
        (128, 512, 512, 1, False, 0),
        (64, 512, 500, 1, False, 2),
        (128, 512, 512, 1, True, 1),
        (64, 512, 512, 1, True, 2),
        (128, 512, 512, 2, True, 2),
        (128, 640, 640, 1, True, 2),
        (128, 512, 768, 1, True, 2),
    ],
)
def test_number_of_masked_row_blocks(width: int, seq_len: int, kv_len: int, group: int, causal: bool, masked: int) -> None:
    assert masked_row_blocks(width, seq_len, kv_len, group, causal=causal) == masked


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "batch_heads", "before", "left", "share"),
    [
        (128, 16384, 16, 15, 68, 132),
        (128, 2048, 128, 15, 68, 17),
        (128, 1024, 256, 0, 0, 0),  # a split does not pay
        (128, 512, 512, 0, 0, 0),  # too short
        (64, 16384, 32, 31, 4, 4),
        (128, 4096, 1, 0, 32, 16),  # fewer than processors
        (128, 4096, 33, 0, 0, 0),  # eight full rounds
    ],
)
def test_split_of_the_last_round(
    head_dim: int, seq_len: int, batch_heads: int, before: int, left: int, share: int
) -> None:  # fmt: skip
    tiling = BackwardTiling.of(head_dim, seq_len, seq_len, 1, batch_heads, SMS, causal=False)
    assert (tiling.before, tiling.left, tiling.share) == (before, left, share)
    assert tiling.constants(float16=False)["SPLIT"] == (share > 0)
    assert tiling.parts == 2 * left * 128 * head_dim
    whole_rounds = BackwardTiling.of(head_dim, seq_len, seq_len, 1, batch_heads, SMS, causal=False, divides=False)
    assert (whole_rounds.before, whole_rounds.left, whole_rounds.share) == (0, 0, 0)


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 300), st.integers(1, 200))
def test_runs_of_the_last_round_fit_the_processors(tiles: int, row_blocks: int, processors: int) -> None:
    before, left, share = last_round(tiles, row_blocks, processors)
    if share:
        assert before * processors + left == tiles
        runs = -(-left * row_blocks // share)
        assert runs <= processors
        assert share < row_blocks  # a run spans at most two column blocks


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "causal", "float16", "holds"),
    [
        (128, 4096, False, True, True),
        (128, 4096, True, False, True),
        (128, 512, True, False, False),  # whole heads
        (64, 4096, False, False, True),
        (64, 4096, False, True, False),  # too few registers
        (64, 4096, True, False, False),
    ],
)
def test_where_k_is_held_in_registers(head_dim: int, seq_len: int, causal: bool, float16: bool, holds: bool) -> None:
    heads = 16384 // seq_len * 2048 // head_dim
    tiling = BackwardTiling.of(head_dim, seq_len, seq_len, 1, heads, SMS, causal=causal)
    assert tiling.constants(float16=float16)["HOLD"] == holds
