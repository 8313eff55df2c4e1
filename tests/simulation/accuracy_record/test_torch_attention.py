"""The stated model of torch's attention, against a walk over its blocks."""

from __future__ import annotations

import pytest

from ioaware.simulation.accuracy_record.torch_attention import (
    BLOCKS,
    backend_of,
    fused_equivalent,
    requested_bytes,
    unfused_hbm_bytes,
)

TARGETS = "ioaware.kernels.attention.pytorch.sdpa_targets"


def point(**given: int | bool) -> dict[str, int | bool]:
    return {"batch": 2, "heads": 3, "seq_len": 1024, "head_dim": 64, "causal": False, **given}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_flash_reads_q_once_and_the_visible_key_blocks_per_row_block(head_dim: int, causal: bool) -> None:
    params = point(head_dim=head_dim, causal=causal)
    block_m, block_n = BLOCKS["torch_flash"][head_dim]
    rows = 0
    for first in range(0, 1024, block_m):
        rows += block_m  # of Q
        for key in range(0, 1024, block_n):
            if not causal or key < first + block_m:
                rows += 2 * block_n
    found = requested_bytes("torch_flash", params)
    assert found.read_bytes == 6 * 2 * head_dim * rows
    assert found.write_bytes == 6 * 1024 * (2 * head_dim + 4)


def test_the_efficient_kernel_reads_q_again_with_each_key_block() -> None:
    steps = (1024 // 64) ** 2
    assert requested_bytes("torch_efficient", point()).read_bytes == 6 * 2 * 64 * steps * 3 * 64


def test_unfused_operators_move_the_scores_at_least_six_times() -> None:
    scores = 6 * 1024 * 1024
    hbm = unfused_hbm_bytes(point())
    small = 6 * 1024 * 64
    assert hbm.read_bytes == scores * (4 + 5 + 4 + 4 + 4) + small * (3 * 2 + 2 * 4 + 2 * 4 + 4 + 4)
    assert hbm.write_bytes == scores * (4 + 4 + 1 + 4 + 2) + small * (3 * 4 + 2 * 4 + 4 + 2)
    assert requested_bytes("torch_math", point()).read_bytes > hbm.read_bytes


def test_names_and_equivalents() -> None:
    assert backend_of(f"{TARGETS}:torch_flash") == "torch_flash"
    assert backend_of("flash2") == ""
    assert fused_equivalent("torch_flash", point(head_dim=128))["block_n"] == 64
