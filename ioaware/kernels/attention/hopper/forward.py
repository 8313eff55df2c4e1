"""Prepare and launch the Hopper forward kernel on the host.

It decides on supported tensors and launches, and keeps the cache of prepared calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.hopper.forward_config import MEDIUM, Tiling, division_is_exact, inverse_of, padded_head_dim
from ioaware.kernels.attention.launching.launch_cache import Launch, same_view
from ioaware.kernels.attention.launching.tma import capability, processors, suits_tma, tma_view

PLAIN = {torch.Tensor, torch.nn.Parameter}
"""Tensor types with shapes that are numbers and not symbols."""
MAX_CACHED_CALLS = 4096
"""Prepared calls that are cached; beyond that the cache is cleared."""


def refusal_reason(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> str | None:
    """Return why the Hopper kernel cannot take these tensors, or None."""
    if q.dtype not in (torch.float16, torch.bfloat16):
        return f"its matmuls take float16 or bfloat16, not {str(q.dtype).removeprefix('torch.')}"
    if q.shape[3] % 8 or q.shape[3] > 256:
        return f"its loads take head_dims of a multiple of 8 up to 256, not {q.shape[3]}"
    if scale <= 0:
        return f"it takes the maximum before it scales, which needs a positive scale, not {scale}"
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not suits_tma(tensor):
            return f"its loads take rows of adjacent elements that begin at multiples of 16 bytes; {name} has {tensor.stride()}"
    if q.device.type != "cuda" or not torch.cuda.is_available():
        return "there is no GPU"
    major, minor = capability(q.device.index or 0)
    if major != 9:
        return f"this GPU has compute capability {major}.{minor}, not 9.0"
    batch, heads, seq_len, _ = q.shape
    if not all(tiling.divisible for tiling in _tilings(q)) or not division_is_exact(batch * heads, heads):
        return f"it cannot number the tiles of {batch * heads} heads of {seq_len} rows"
    return None


def _tilings(q: torch.Tensor) -> Iterator[Tiling]:
    """Yield the tilings of the forward pass, and of dQ.

    They have tiles of 128 rows, all causal ones paired.
    """
    batch, heads, seq_len, head_dim = q.shape
    blocks = -(-seq_len // 128)
    for causal in (False, True):
        yield Tiling.of(head_dim, seq_len, batch * heads, processors(q.device.index or 0), causal=causal)
    yield Tiling(MEDIUM, False, blocks, batch * heads, 0)
    yield Tiling(MEDIUM, True, blocks, batch * heads, batch * heads)


def hopper_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float, persistent: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return softmax(scale Q K^T) V and its natural log-sum-exp.

    The tensors are those that refusal_reason accepts.

    q [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim], kv_heads a divisor of heads. Returns o
    like q and lse [batch, heads, seq_len] in float32. Unless persistent, a CTA takes one work item.
    """
    if not {type(q), type(k), type(v)} <= PLAIN:
        return PreparedCall.of(q, k, v, causal, scale, persistent)(q, k, v)
    key = (q.shape, q.stride(), k.shape, k.stride(), v.stride(), q.dtype, q.device.index, causal, scale, persistent)
    prepared = _CALLS.get(key)
    if prepared is None:
        if len(_CALLS) >= MAX_CACHED_CALLS:
            _CALLS.clear()
        prepared = _CALLS[key] = PreparedCall.of(q, k, v, causal, scale, persistent)
    return prepared(q, k, v)


_CALLS: dict[tuple[object, ...], PreparedCall] = {}


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """Everything in a call that does not depend on the data.

    Shapes, strides, dtype, device, mask and scale determine it.
    """

    launch: Launch
    views: tuple[Any, Any, Any, Any]
    numbers: tuple[float, ...]
    o_strides: tuple[int, ...]
    lse_shape: tuple[int, int, int]

    @staticmethod
    def of(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, persistent: bool
    ) -> PreparedCall:  # fmt: skip
        """Make descriptors and scalars for tensors like these."""
        from ioaware.kernels.attention.hopper.forward_kernel import hopper_forward_kernel

        batch, heads, seq_len, head_dim = q.shape
        kv_heads, kv_len = k.shape[1], k.shape[2]
        width = padded_head_dim(head_dim)
        tiling = Tiling.of(head_dim, seq_len, batch * heads, processors(q.device.index or 0), causal=causal)
        plan = tiling.plan
        o = torch.empty_like(q, device="meta")
        if not suits_tma(o):
            o = torch.empty(q.shape, dtype=q.dtype, device="meta")
        programs = min(tiling.work_items, processors(q.device.index or 0)) if persistent else tiling.work_items
        constants = plan.constants(seq_len, kv_len, causal=causal)
        return PreparedCall(
            launch=Launch(
                "attention", hopper_forward_kernel, (programs,), q.device, constants, num_warps=4
            ),
            views=(
                tma_view(q, 64, width), tma_view(k, plan.block_n, width),
                tma_view(v, plan.block_n, width), tma_view(o, 64, width),
            ),
            numbers=(
                seq_len, kv_len, heads, batch * heads, heads // kv_heads, inverse_of(tiling.items_per_head), inverse_of(heads),
                tiling.paired, inverse_of(tiling.others), scale * LOG2_E.value,
            ),
            o_strides=o.stride(),
            lse_shape=(batch, heads, seq_len),
        )  # fmt: skip

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Launch for tensors with the same properties."""
        o = torch.empty_strided(q.shape, self.o_strides, dtype=q.dtype, device=q.device)
        lse = torch.empty(self.lse_shape, dtype=torch.float32, device=q.device)
        views = map(same_view, self.views, (q, k, v, o))
        self.launch(*views, lse, *self.numbers)
        return o, lse
