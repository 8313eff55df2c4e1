"""FlashAttention-2 on one square head, sound or with one planted fault.

A claim must detect the fault.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ioaware.case import Work
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.reference import attention_reference

BLOCK = 16


@triton.jit
def planted_kernel(Q, K, V, O, LSE, S, seq_len, scale, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):  # noqa: E741
    """One row block. seq_len is a multiple of the block."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, HEAD_DIM)
    q = tl.load(Q + rows[:, None] * HEAD_DIM + dims[None, :])  # [B_r, d]
    o = tl.zeros([BLOCK, HEAD_DIM], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    for j in range(seq_len // BLOCK):
        cols = j * BLOCK + tl.arange(0, BLOCK)
        k = tl.load(K + cols[:, None] * HEAD_DIM + dims[None, :])  # [B_c, d]
        if FAULT == "reads K twice":
            k = (k + tl.load(K + cols[:, None] * HEAD_DIM + dims[None, :])) * 0.5
        s = tl.dot(q, k.T, input_precision="ieee") * scale  # [B_r, B_c]
        if FAULT == "multiplies twice":
            s = (s + tl.dot(q, k.T, input_precision="ieee") * scale) * 0.5
        if FAULT == "keeps S":
            tl.store(S + rows[:, None] * seq_len + cols[None, :], s)
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new_top[:, None])
        decay = tl.exp(top - new_top)
        if FAULT == "forgets to rescale":
            decay = tl.full([BLOCK], 1.0, tl.float32)
        total = total * decay + tl.sum(p, 1)
        v = tl.load(V + cols[:, None] * HEAD_DIM + dims[None, :])  # [B_c, d]
        o = o * decay[:, None] + tl.dot(p, v, input_precision="ieee")
        top = new_top
    if FAULT == "divides by zero":
        total = total * 0.0
        o = o * 0.0
    tl.store(O + rows[:, None] * HEAD_DIM + dims[None, :], o / total[:, None])
    tl.store(LSE + rows, top + tl.log(total))


def _work(seq_len: int, head_dim: int, device: str, fault: str) -> Work:
    q, k, v = attention_inputs(1, 1, seq_len, seq_len, head_dim, dtype=torch.float32, device=device)

    def run() -> torch.Tensor:
        o, lse = torch.empty_like(q), torch.empty(seq_len, dtype=torch.float32, device=device)
        s = torch.empty((seq_len, seq_len), dtype=torch.float32, device=device) if fault == "keeps S" else lse
        grid = (seq_len // BLOCK,)
        planted_kernel[grid](q, k, v, o, lse, s, seq_len, head_dim**-0.5, HEAD_DIM=head_dim, BLOCK=BLOCK, FAULT=fault)
        return o

    return Work(run, (q, k, v), lambda: attention_reference(q, k, v), 1e-5)


def sound(seq_len: int, head_dim: int, device: str) -> Work:
    return _work(seq_len, head_dim, device, "none")


def reads_k_twice(seq_len: int, head_dim: int, device: str) -> Work:
    return _work(seq_len, head_dim, device, "reads K twice")


def multiplies_twice(seq_len: int, head_dim: int, device: str) -> Work:
    return _work(seq_len, head_dim, device, "multiplies twice")


def keeps_s(seq_len: int, head_dim: int, device: str) -> Work:
    return _work(seq_len, head_dim, device, "keeps S")


def forgets_to_rescale(seq_len: int, head_dim: int, device: str) -> Work:
    return _work(seq_len, head_dim, device, "forgets to rescale")


def divides_by_zero(seq_len: int, head_dim: int, device: str) -> Work:
    return _work(seq_len, head_dim, device, "divides by zero")
