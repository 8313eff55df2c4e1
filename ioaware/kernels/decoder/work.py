"""Describe the decoder's kernels as a `Work`.

It holds seeded inputs, the kernel, and torch in float64 with its autograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ioaware.case import Work
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.references.work import TOLERANCES
from ioaware.kernels.decoder.backward import decoder_backward
from ioaware.kernels.decoder.backward_steps import decoder_backward_steps
from ioaware.kernels.decoder.dropout import kept
from ioaware.kernels.decoder.forward import decoder
from ioaware.kernels.decoder.forward_steps import decoder_steps, forward_steps
from ioaware.kernels.decoder.layer_norm import EPSILON

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
SEED = 20
"""Dropout seed of the first head; each next head has the next seed."""


def decoder_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, dropout_percent: int, notebook: bool
) -> torch.Tensor:
    """Compute `decoder` in float64, differentiably, a head at a time.

    Layouts as there.
    """
    seq_len, kv_len = q.shape[2], k.shape[2]
    rows = torch.arange(seq_len, device=q.device)[:, None]
    cols = torch.arange(kv_len, device=q.device)[None, :]
    heads: list[torch.Tensor] = []
    for number, (one_q, one_k, one_v) in enumerate(zip(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), strict=True)):
        q_hat, k_hat, v_hat = (
            torch.nn.functional.layer_norm(x.double(), x.shape[-1:], eps=EPSILON.value) for x in (one_q, one_k, one_v)
        )
        s = q_hat @ k_hat.T / math.sqrt(q.shape[3])  # [N, N_k]
        s = s.masked_fill(cols > rows + (kv_len - seq_len), -math.inf)
        z = kept(SEED + number, rows, cols, kv_len, dropout_percent)
        if notebook:
            weights = torch.softmax(s.masked_fill(~z, -math.inf), dim=1)
        else:
            weights = torch.softmax(s, dim=1) * z / (1 - dropout_percent / 100)
        heads.append(torch.where(weights.isnan(), 0.0, weights) @ v_hat)
    return torch.stack(heads).unflatten(0, q.shape[:2])


def _fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, **options: Any) -> Callable[[], Gradients]:
    """Return the fused backward pass on the O and log-sum-exp of a forward pass."""
    o, lse = decoder(q, k, v, **options)
    return lambda: decoder_backward(q, k, v, o, lse, do, **options)


def _steps(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    *,
    notebook: bool,
    block_m: int,
    block_n: int,
    **options: Any,
) -> Callable[[], Gradients]:
    """Return the work of the backward pass in steps.

    LayerNorms and dropped weights come from a forward pass in steps.
    """
    del notebook  # the only order of the steps
    _, normed, weights = forward_steps(q, k, v, block_m=block_m, block_n=block_n, **options)
    return lambda: decoder_backward_steps((q, k, v), normed, weights, do, block_m=block_m, block_n=block_n)


def decoder_work(
    name: str,
    *,
    device: str,
    batch: int,
    heads: int,
    seq_len: int,
    kv_len: int | None = None,
    head_dim: int,
    dtype: str,
    dropout_percent: int,
    block_m: int,
    block_n: int,
    sram_elements: int | None = None,
) -> Work:
    """Return the work of the decoder's forward or backward pass on random inputs.

    Names with bwd are backward passes.

    Names with notebook normalise after dropout, names that end in steps keep every intermediate in HBM. kv_len is seq_len
    unless given; sram_elements has set the blocks.
    """
    del sram_elements
    sizes = (batch, heads, seq_len, seq_len if kv_len is None else kv_len, head_dim)
    q, k, v = attention_inputs(*sizes, dtype=getattr(torch, dtype), device=device)
    order = {"dropout_percent": dropout_percent, "notebook": "notebook" in name}
    options = {**order, "seed": SEED, "block_m": block_m, "block_n": block_n}
    in_steps = name.endswith("steps")
    if "bwd" not in name:

        def forward() -> torch.Tensor:
            if in_steps:
                return decoder_steps(q, k, v, dropout_percent=dropout_percent, seed=SEED, block_m=block_m, block_n=block_n)
            return decoder(q, k, v, **options)[0]

        return Work(
            forward,
            inputs=(q, k, v),
            reference=lambda: decoder_reference(q, k, v, **order),
            tolerance=2 * TOLERANCES[q.dtype],  # the LayerNorms are rounded too
        )
    do, _, _ = attention_inputs(*sizes, dtype=q.dtype, device=device, seed=1)
    backward = _steps if in_steps else _fused

    def gradients() -> tuple[torch.Tensor, ...]:
        leaves = [x.double().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(decoder_reference(*leaves, **order), leaves, do.double())

    return Work(
        backward(q, k, v, do, **options),
        inputs=(q, k, v, do),
        reference=gradients,
        tolerance=4 * TOLERANCES[q.dtype],
    )
