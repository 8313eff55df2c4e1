"""Merge a partial result of attention into another by their log-sum-exps.

This is the combiner of disjoint sets of keys.

For each row: L = log(e^L1 + e^L2), O = e^(L1 - L) O1 + e^(L2 - L) O2, with (O, L) = (0, -inf) neutral. On one head of N rows it
reads N (d + 1) float32 elements of the accumulator, N d of the partial result and N of its L, and writes N (d + 1).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import tile_side
from ioaware.kernels.attention.launching.launch import launching

BLOCK_M = 16


@triton.jit
def merge_kernel(
    O, Lse, O_part, Lse_part,
    stride_ob, stride_oh, stride_on, stride_lb, stride_lh, stride_pb, stride_ph, stride_pn, stride_qb, stride_qh,
    rows, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Merge one row block of one head in place. Grid (row blocks, heads, batch)."""
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    lanes = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, tile_side(HEAD_DIM))
    inside = (lanes < rows)[:, None] & (cols < HEAD_DIM)[None, :]
    row = lanes.to(tl.int64)[:, None]
    O += batch * stride_ob + head * stride_oh
    O_part += batch * stride_pb + head * stride_ph
    Lse += batch * stride_lb + head * stride_lh
    Lse_part += batch * stride_qb + head * stride_qh
    lse = tl.load(Lse + lanes, mask=lanes < rows, other=float("-inf"))  # [B_r]
    lse_part = tl.load(Lse_part + lanes, mask=lanes < rows, other=float("-inf"))  # [B_r]
    m = tl.maximum(lse, lse_part)
    shift = tl.where(m == float("-inf"), 0.0, m)  # no visible key in either: -inf - (-inf) is NaN
    weight, weight_part = tl.exp(lse - shift), tl.exp(lse_part - shift)
    total = weight + weight_part
    total = tl.where(total == 0.0, 1.0, total)
    o = tl.load(O + row * stride_on + cols[None, :], mask=inside, other=0.0)  # [B_r, d]
    part = tl.load(O_part + row * stride_pn + cols[None, :], mask=inside, other=0.0).to(tl.float32)  # [B_r, d]
    merged = o * (weight / total)[:, None] + part * (weight_part / total)[:, None]
    tl.store(O + row * stride_on + cols[None, :], merged, mask=inside)
    tl.store(Lse + lanes, m + tl.log(total), mask=lanes < rows)


def merge_on_gpu(o: torch.Tensor, lse: torch.Tensor, o_part: torch.Tensor, lse_part: torch.Tensor) -> None:
    """Merge a partial result into o and lse, in place, by one kernel.

    o [batch, heads, rows, head_dim] and lse [batch, heads, rows]: float32; o_part and lse_part of their shapes, o_part of any
    floating dtype. The last axis of each is contiguous.
    """
    batch, heads, rows, head_dim = o.shape
    with launching("attention", o.device):
        merge_kernel[(triton.cdiv(rows, BLOCK_M), heads, batch)](
            o, lse, o_part, lse_part, *o.stride()[:3], *lse.stride()[:2], *o_part.stride()[:3], *lse_part.stride()[:2],
            rows, HEAD_DIM=head_dim, BLOCK_M=BLOCK_M,
        )  # fmt: skip


def merge_in_torch(o: torch.Tensor, lse: torch.Tensor, o_part: torch.Tensor, lse_part: torch.Tensor) -> None:
    """Do the same in torch, for tensors on the CPU."""
    merged = torch.logaddexp(lse, lse_part)
    shift = torch.where(merged == -torch.inf, 0.0, merged)
    o.mul_((lse - shift).exp().unsqueeze(3)).add_(o_part * (lse_part - shift).exp().unsqueeze(3))
    lse.copy_(merged)
