"""Prepare and launch decode on the host.

Prepared calls are cached, and a growing key cache does not invalidate them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.decode.kernels import combine_kernel, decode_kernel
from ioaware.kernels.attention.decode.num_splits import SplitPlan, plan_splits, row_alignment
from ioaware.kernels.attention.hopper.forward import MAX_CACHED_CALLS, PLAIN
from ioaware.kernels.attention.launching.launch import processors, shared_memory_bytes
from ioaware.kernels.attention.launching.launch_cache import Launch


def decode_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float, splits: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return softmax(scale Q K^T) V and its natural log-sum-exp.

    q [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim], kv_heads a divisor of heads, any strides.
    Returns o like q and lse [batch, heads, seq_len] in float32, contiguous. The number of `splits` is chosen for the GPU unless
    given.
    """
    if not {type(q), type(k), type(v)} <= PLAIN:
        plan = _plan(q, k, splits)
        return PreparedCall.of(q, k, v, causal, scale, plan, plan.splits_of(k.shape[2]))(q, k, v)
    kv_len = k.shape[2]
    aligned = tuple(tensor.data_ptr() % 16 == 0 for tensor in (q, k, v))
    key = (q.shape, q.stride(), k.shape[1], k.stride(), v.stride(), q.dtype, q.device, aligned, causal, scale, splits)
    if len(_PLANS) >= MAX_CACHED_CALLS or len(_CALLS) >= MAX_CACHED_CALLS:
        _PLANS.clear()
        _CALLS.clear()
    plan = _PLANS.get(key)
    if plan is None:
        plan = _PLANS[key] = _plan(q, k, splits)
    # A growing cache changes kv_len with every token; a kernel is specialised only for kv_len being 1 or divisible by 16.
    splits = plan.splits_of(kv_len)
    prepared = _CALLS.get((key, splits, kv_len == 1, kv_len % 16 == 0))
    if prepared is None:
        prepared = PreparedCall.of(q, k, v, causal, scale, plan, splits)
        _CALLS[key, splits, kv_len == 1, kv_len % 16 == 0] = prepared
    return prepared(q, k, v)


def _plan(q: torch.Tensor, k: torch.Tensor, splits: int | None) -> SplitPlan:
    batch, heads, seq_len, head_dim = q.shape
    kv_heads = k.shape[1]
    return plan_splits(
        batch * kv_heads, heads // kv_heads * seq_len, head_dim, q.element_size(),
        processors=processors(q.device), shared_bytes=shared_memory_bytes(q.device), splits=splits,
    )  # fmt: skip


def launches_early(device: torch.device) -> bool:
    """Return whether this GPU supports programmatic dependent launch.

    NVIDIA's do from compute capability 9.0 on.
    """
    there = device.type == "cuda" and torch.cuda.is_available() and torch.version.hip is None
    return there and torch.cuda.get_device_capability(device)[0] >= 9


_PLANS: dict[tuple[object, ...], SplitPlan] = {}
_CALLS: dict[tuple[object, ...], PreparedCall] = {}


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """Everything in a call that does not depend on kv_len or the data.

    Shapes (but kv_len), strides, dtype, device, mask and scale determine it.
    """

    splits: int
    decode: Launch
    combine: Launch
    o_strides: tuple[int, ...]
    lse_shape: tuple[int, int, int]
    strides: tuple[int, ...]
    group: int
    scale_log2: float

    @staticmethod
    def of(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, plan: SplitPlan, splits: int
    ) -> PreparedCall:
        """Make the launches for tensors like these."""
        batch, heads, seq_len, head_dim = q.shape
        kv_heads = k.shape[1]
        o_strides = torch.empty_like(q, device="meta").stride()
        part_strides = (0, *o_strides)
        if splits > 1:
            part_strides = (batch * heads * seq_len * head_dim, heads * seq_len * head_dim, seq_len * head_dim, head_dim, 1)
        overlap = splits > 1 and launches_early(q.device)
        constants = {
            "CAUSAL": causal and seq_len > 1, "HEAD_DIM": head_dim, "WIDTH": plan.width, "ROWS": plan.rows,
            "BLOCK_N": plan.block_n, "ALIGNMENT": row_alignment(k, v), "OVERLAP": overlap,
        }  # fmt: skip
        options = {"num_warps": plan.num_warps, "num_stages": plan.num_stages}
        at_once = min(64, triton.next_power_of_2(splits))
        cols = min(64 if at_once <= 16 else 32, plan.width)
        combining = {"HEAD_DIM": head_dim, "COLS": cols, "AT_ONCE": at_once, "OVERLAP": overlap}
        early = {"launch_pdl": True} if overlap else {}  # programmatic dependent launch
        grid = (plan.tiles * splits, kv_heads, batch)
        combine_grid = (batch * heads * seq_len, -(-head_dim // cols))
        return PreparedCall(
            splits=splits,
            decode=Launch("attention", decode_kernel, grid, q.device, constants, **options),
            combine=Launch("attention", combine_kernel, combine_grid, q.device, combining, num_warps=1, **early),
            o_strides=o_strides,
            lse_shape=(batch, heads, seq_len),
            strides=(*q.stride(), *k.stride(), *v.stride(), *part_strides),
            group=heads // kv_heads,
            scale_log2=scale * LOG2_E.value,
        )

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Launch for tensors with the same properties, and any kv_len with as many splits."""
        o = torch.empty_strided(q.shape, self.o_strides, dtype=q.dtype, device=q.device)
        lse = torch.empty(self.lse_shape, dtype=torch.float32, device=q.device)
        _, heads, seq_len, _ = q.shape
        splits = self.splits
        numbers = (*self.strides, seq_len, k.shape[2], self.group, splits, self.scale_log2)
        if splits == 1:
            self.decode(q, k, v, o, lse, *numbers)
            return o, lse
        parts = torch.empty((splits, *q.shape), dtype=torch.float32, device=q.device)
        lse_parts = torch.empty((splits, *self.lse_shape), dtype=torch.float32, device=q.device)
        self.decode(q, k, v, parts, lse_parts, *numbers)
        self.combine(parts, lse_parts, o, lse, *self.o_strides, heads, seq_len, splits)
        return o, lse
