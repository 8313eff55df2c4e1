"""Decode's bytes: derived from its IR, traced and counted by hand, all equal."""

from __future__ import annotations

import pytest

from ioaware.derivation.derive import derive
from ioaware.kernels.attention.decode.num_splits import plan_splits
from ioaware.kernels.attention.launching.launch import HOPPER_PROCESSORS, HOPPER_SHARED_BYTES
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace


def by_hand(batch: int, heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int) -> tuple[int, int, int, int]:
    """Return bytes read and written by decode and by the combine kernel.

    They are those in fp16 without a mask.
    """
    rows = heads // kv_heads * seq_len
    plan = plan_splits(batch * kv_heads, rows, head_dim, 2, processors=HOPPER_PROCESSORS, shared_bytes=HOPPER_SHARED_BYTES)
    splits = plan.splits_of(kv_len)
    all_rows = batch * heads * seq_len
    output = all_rows * (2 * head_dim + 4)  # O in fp16 and its log-sum-exp in float32
    reads = 2 * batch * kv_heads * plan.tiles * 2 * kv_len * head_dim + splits * 2 * all_rows * head_dim
    if splits == 1:
        return reads, output, 0, 0
    parts = splits * all_rows * (4 * head_dim + 4)
    programs_of_a_row = -(-head_dim // min(64, plan.width))
    lse_reads = programs_of_a_row * splits * all_rows * 4
    return reads, parts, splits * all_rows * 4 * head_dim + lse_reads, output


@pytest.mark.parametrize(
    "point",
    [
        {"batch": 1, "heads": 8, "kv_heads": 2, "seq_len": 1, "kv_len": 700, "head_dim": 64},
        {"batch": 2, "heads": 6, "kv_heads": 1, "seq_len": 13, "kv_len": 233, "head_dim": 40},  # two tiles of rows
        {"batch": 67, "heads": 2, "kv_heads": 2, "seq_len": 1, "kv_len": 100, "head_dim": 16},  # one column block: no split
    ],
    ids=str,
)
def test_derived_traced_and_by_hand(point: dict[str, int]) -> None:
    target = load_target("ioaware.kernels.attention.targets:decode")
    params = target.resolve(point)
    derived, traced = derive(target, params, machine_code=False), trace(target, params)
    launches = [
        tuple((launch.requested.read_bytes, launch.requested.write_bytes) for launch in source.launches if launch.requested)
        for source in (derived, traced)
    ]
    decode_read, decode_write, combine_read, combine_write = by_hand(**point)
    combined = ((combine_read, combine_write),) if combine_read else ()
    assert launches == [((decode_read, decode_write), *combined)] * 2
    assert derived.exact
    assert traced.check is not None
    assert traced.check.passed
