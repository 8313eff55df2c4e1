"""The design of Triton's tutorial 06, forward.

It has TMA descriptors, one loop off and one on the diagonal, and blocks by autotuning.

Written for the race from the tutorial's description of itself; FlashAttention-2's order (arXiv 2307.08691, Algorithm 1):
    for each K_j, V_j below the diagonal block, then for those in it under the mask:
        S = Q K_j^T;  m' = max(m, rowmax(S));  P = exp2(S - m');  l, O *= exp2(m - m');  l += rowsum(P);  O += P V_j
    O /= l;  L = m + log2(l)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from ioaware.kernels.attention.constants import LOG2_E

if TYPE_CHECKING:
    from torch import Tensor

TUNING_REPEATS = 3


@triton.jit
def visit(acc, l, m, q, K, V, rows, first_row, lo, hi, scale_log2, MASK: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return O, l and m after columns lo to hi."""
    for col in tl.range(lo, hi, BLOCK_N):
        k = K.load([first_row + col, 0])  # [BLOCK_N, d]
        s = tl.dot(q, k.T)  # [BLOCK_M, BLOCK_N]
        if MASK:
            s = tl.where(rows[:, None] >= col + tl.arange(0, BLOCK_N)[None, :], s * scale_log2, -1.0e6)
            m_new = tl.maximum(m, tl.max(s, 1))
            s -= m_new[:, None]
        else:
            m_new = tl.maximum(m, tl.max(s, 1) * scale_log2)
            s = s * scale_log2 - m_new[:, None]
        p = tl.math.exp2(s)
        decay = tl.math.exp2(m - m_new)
        l = l * decay + tl.sum(p, 1)
        acc = acc * decay[:, None]
        v = V.load([first_row + col, 0])  # [BLOCK_N, d]
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = m_new
    return acc, l, m


def _block_shapes(arguments: dict[str, Any]) -> None:
    """Set the descriptors' boxes to the blocks of this configuration."""
    for name, rows in (("Q", "BLOCK_M"), ("O", "BLOCK_M"), ("K", "BLOCK_N"), ("V", "BLOCK_N")):
        arguments[name].block_shape = [arguments[rows], arguments["HEAD_DIM"]]


CONFIGURATIONS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_stages=stages, num_warps=warps, pre_hook=_block_shapes)
    for m in (64, 128)
    for n in (32, 64, 128)
    for stages in (2, 3, 4)
    for warps in (4, 8)
    if warps == 4 or m * n == 128 * 128  # on Hopper eight warps only pay for the largest tile
]


def fitting(configurations: list[Any], arguments: dict[str, Any], **constants: Any) -> list[Any]:
    """Return configurations whose blocks divide what they tile.

    None goes beyond the diagonal's end, and none is wider than the head.
    """
    every = arguments | constants
    return [
        one
        for one in configurations
        if one.kwargs["BLOCK_N"] <= every["HEAD_DIM"]
        and not (every["CAUSAL"] and one.kwargs["BLOCK_N"] > one.kwargs["BLOCK_M"])
    ]


def quickly(call: Any, quantiles: Any) -> Any:
    """Return the milliseconds of a call, the least of a few.

    Why so few: tuning chooses among blocks with clearly different times.
    """
    times: list[float] = []
    for _ in range(TUNING_REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return [min(times)] * len(quantiles)


@triton.autotune(
    CONFIGURATIONS,
    key=["seq_len", "HEAD_DIM", "CAUSAL"],
    prune_configs_by={"early_config_prune": fitting},
    do_bench=quickly,
)
@triton.jit
def tutorial_forward_kernel(
    Q, K, V, O, Lse, seq_len, scale_log2,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute BLOCK_M rows of one head.

    Grid (row blocks, batch * heads). Q, K, V, O: descriptors of [rows, d].
    """
    block, head = tl.program_id(0), tl.program_id(1)
    first_row = head * seq_len
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = Q.load([first_row + block * BLOCK_M, 0])  # [BLOCK_M, d]
    if CAUSAL:
        diagonal = block * BLOCK_M
        acc, l, m = visit(acc, l, m, q, K, V, rows, first_row, 0, diagonal, scale_log2, False, BLOCK_N)
        acc, l, m = visit(acc, l, m, q, K, V, rows, first_row, diagonal, diagonal + BLOCK_M, scale_log2, True, BLOCK_N)
    else:
        acc, l, m = visit(acc, l, m, q, K, V, rows, first_row, 0, seq_len, scale_log2, False, BLOCK_N)
    tl.store(Lse + first_row + rows, m + tl.math.log2(l))
    O.store([first_row + block * BLOCK_M, 0], (acc / l[:, None]).to(Q.dtype))


def tutorial_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Return o like q and lse in base 2.

    All contiguous [batch, heads, seq_len, head_dim], seq_len a multiple of 128.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    batch, heads, seq_len, head_dim = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((batch, heads, seq_len), dtype=torch.float32, device=q.device)
    views = [TensorDescriptor(one, [batch * heads * seq_len, head_dim], [head_dim, 1], [64, head_dim]) for one in (q, k, v, o)]

    def programs(meta: dict[str, int]) -> tuple[int, int]:
        return -(-seq_len // meta["BLOCK_M"]), batch * heads

    tutorial_forward_kernel[programs](*views, lse, seq_len, scale * LOG2_E.value, HEAD_DIM=head_dim, CAUSAL=causal)
    return o, lse
