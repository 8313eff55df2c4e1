"""The portable kernels' bytes: derived from their IR, traced and by hand.

All are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ioaware.derivation.derive import derive
from ioaware.kernels.attention.launching.launch import HOPPER_SHARED_BYTES
from ioaware.kernels.attention.portable.config import Blocks, backward_blocks, forward_blocks
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace

Bytes = tuple[int, int]
POINTS = [
    {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 130, "kv_len": 200, "head_dim": 40, "causal": False},
    {"batch": 1, "heads": 2, "kv_heads": 1, "seq_len": 200, "kv_len": 130, "head_dim": 72, "causal": True},
]


def row_blocks(blocks: Blocks, seq_len: int, kv_len: int, causal: bool) -> list[tuple[int, int]]:
    """Return the rows of each row block, and the number of keys loaded for it."""
    found: list[tuple[int, int]] = []
    for row in range(0, seq_len, blocks.block_m):
        end = min(row + blocks.block_m, seq_len)
        keys = max(end + kv_len - seq_len, 0) if causal else kv_len
        found.append((end - row, min(-(-keys // blocks.block_n) * blocks.block_n, kv_len)))
    return found


def forward_by_hand(
    batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, causal: bool
) -> list[Bytes]:
    del kv_heads
    blocks = forward_blocks(head_dim, 2, seq_len, causal=causal, tma=True, shared_bytes=HOPPER_SHARED_BYTES)
    reads = sum(2 * head_dim * (rows + 2 * keys) for rows, keys in row_blocks(blocks, seq_len, kv_len, causal))
    return [(batch * heads * reads, batch * heads * seq_len * (2 * head_dim + 4))]


def backward_by_hand(
    batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, causal: bool
) -> list[Bytes]:
    blocks = backward_blocks(head_dim, 2, seq_len, tma=True)
    assert blocks.dk is None
    row = 2 * head_dim  # bytes
    dq_reads = sum(rows * (3 * row + 4) + 2 * keys * row for rows, keys in row_blocks(blocks.dq, seq_len, kv_len, causal))
    dkdv_reads = 0
    for col in range(0, kv_len, blocks.dkdv.block_n):
        cols = min(blocks.dkdv.block_n, kv_len - col)
        first = max(col - (kv_len - seq_len), 0) // blocks.dkdv.block_m * blocks.dkdv.block_m if causal else 0
        dkdv_reads += 2 * cols * row + heads // kv_heads * max(seq_len - first, 0) * (2 * row + 8)
    return [
        (batch * heads * dq_reads, batch * heads * seq_len * (row + 8)),
        (batch * kv_heads * dkdv_reads, batch * kv_heads * kv_len * 2 * row),
    ]


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize(("name", "by_hand"), [("portable", forward_by_hand), ("portable_backward", backward_by_hand)])
def test_derived_traced_and_by_hand(name: str, by_hand: Callable[..., list[Bytes]], point: dict[str, int]) -> None:
    target = load_target(f"ioaware.kernels.attention.targets:{name}")
    params = target.resolve(point)
    derived, traced = derive(target, params, machine_code=False), trace(target, params)
    launches = [
        [(launch.requested.read_bytes, launch.requested.write_bytes) for launch in source.launches if launch.requested]
        for source in (derived, traced)
    ]
    expected = by_hand(**point)
    assert launches == [expected, expected]
    assert derived.exact
    assert traced.check is not None
    assert traced.check.passed
