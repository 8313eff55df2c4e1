"""Compute a decoder's attention, backward, in separate steps.

Every intermediate passes through HBM.

With q, k, v the LayerNorms of Q, K, V and A the weights after mask, softmax and dropout, all kept from the forward pass. It
drops before it normalises (the notebook's order):
    dv = A^T dO;  dA = dO v^T;  dS = scale A (dA - rowsum(A dA));  dq = dS k;  dk = dS^T q     Algorithm 3 of standard attention
    dQ, dK, dV = the gradients through LayerNorm of dq, dk, dv       a program per row block, which reads X and dY and writes dX
The gradient of the row maximum is left out: it is zero. Elements: Algorithm 3's, and three times those of Q, K and V.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, store_block
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.launching.launch import launching
from ioaware.kernels.attention.standard_backward import standard_backward
from ioaware.kernels.decoder.layer_norm import layer_norm_gradient, load_with_statistics


@triton.jit
def layer_norm_backward(
    X, dY, dX, stride_xb, stride_xh, stride_xn, stride_xd, stride_yb, stride_yh, stride_yn, stride_yd,
    num_rows, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute dX of one row block.

    Grid (row blocks, heads, batch). dX has the strides of dY.
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    X += batch * stride_xb + head * stride_xh
    dY += batch * stride_yb + head * stride_yh
    dX += batch * stride_yb + head * stride_yh
    row = tl.program_id(0) * BLOCK
    _, x_hat, inverse = load_with_statistics(X, row, num_rows, stride_xn, stride_xd, HEAD_DIM, BLOCK)  # [B, d]
    dy = load_block(dY, row, 0, num_rows, HEAD_DIM, stride_yn, stride_yd, BLOCK, HEAD_DIM).to(tl.float32)  # [B, d]
    dx = layer_norm_gradient(dy, x_hat, inverse, HEAD_DIM)
    store_block(dx, dX, row, 0, num_rows, HEAD_DIM, stride_yn, stride_yd, BLOCK, HEAD_DIM)


def decoder_backward_steps(
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    normed: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    weights: torch.Tensor,
    do: torch.Tensor,
    *,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute dQ, dK and dV from inputs, LayerNorms, dropped weights and dO.

    The inputs are (Q, K, V), their LayerNorms `normed`, the dropped weights A.

    Q and dO [batch, heads, seq_len, head_dim], K and V [batch, heads, kv_len, head_dim], all of one dtype; weights contiguous,
    [batch, heads, seq_len, kv_len]. Extra memory: dA (float32) and dS, N N_k elements each per head, and dq, dk, dv.
    Raises UsageError for unsupported shapes, dtypes, devices or blocks.
    """
    shape = check_attention("decoder_bwd_steps", *inputs, scale=None, block_m=block_m, block_n=block_n)
    outputs = tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in inputs)
    gradients = standard_backward(*normed, weights, do, block_m=block_m, block_n=block_n)
    with launching("decoder_bwd_steps", do.device):
        for x, dy, dx, block in zip(inputs, gradients, outputs, (block_m, block_n, block_n), strict=True):
            layer_norm_backward[(triton.cdiv(x.shape[2], block), shape.heads, shape.batch)](
                x, dy, dx, *x.stride(), *dy.stride(), x.shape[2], HEAD_DIM=shape.head_dim, BLOCK=block
            )
    return outputs[0], outputs[1], outputs[2]
