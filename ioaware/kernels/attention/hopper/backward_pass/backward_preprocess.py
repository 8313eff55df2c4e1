"""Compute D = rowsum(dO * O) and zero the accumulators, in plain Triton.

It precedes the Hopper backward kernels.

Dao 2023, arXiv 2307.08691, Algorithm 2, line 4.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.hopper.backward_pass.dq_accumulator import PIECE


@triton.jit
def prepare_kernel(
    O, dO, Lse, Rows, Sums, Parts, stride_ob, stride_oh, stride_on, stride_gb, stride_gh, stride_gn, seq_len, parts,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Store the log-sum-exp in base 2 and D of each row to Rows.

    Their shape is [batch heads, row blocks, 2, BLOCK_M].

    With SUMS, store zeros to Sums [batch heads, row blocks, BLOCK_M WIDTH] and to the `parts` pieces of Parts. A row beyond
    seq_len, or without a visible key, gets an infinite log-sum-exp, so that its weights 2^(s - lse) are zero.
    Grid (row blocks, heads, batch).
    """
    block, head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    lanes = tl.arange(0, BLOCK_M)
    rows, cols = block * BLOCK_M + lanes, tl.arange(0, WIDTH)
    inside = (rows < seq_len)[:, None] & (cols < HEAD_DIM)[None, :]
    o = tl.load(O + batch * stride_ob + head * stride_oh + rows[:, None] * stride_on + cols[None, :], mask=inside, other=0.0)
    do = tl.load(dO + batch * stride_gb + head * stride_gh + rows[:, None] * stride_gn + cols[None, :], mask=inside, other=0.0)
    batch_head = batch * tl.num_programs(1) + head
    lse = tl.load(Lse + batch_head * seq_len + rows, mask=rows < seq_len, other=float("-inf"))
    here = batch_head * tl.num_programs(0) + block
    Rows += here * (2 * BLOCK_M)
    tl.store(Rows + lanes, tl.where(lse == float("-inf"), float("inf"), lse * LOG2_E))
    tl.store(Rows + BLOCK_M + lanes, tl.sum(o.to(tl.float32) * do.to(tl.float32), 1))
    if SUMS:
        numbers = tl.arange(0, BLOCK_M * WIDTH)
        tl.store(Sums + here * (BLOCK_M * WIDTH) + numbers, tl.zeros([BLOCK_M * WIDTH], tl.float32))
        for part in range(here.to(tl.int32), parts, tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)):
            tl.store(Parts + part * PIECE + tl.arange(0, PIECE), tl.zeros([PIECE], tl.float32))
