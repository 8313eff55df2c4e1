"""Launching the Hopper backward kernels: which of them for each head_dim, their plans, and the buffers between them."""

# Gluon has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ioaware.kernels.attention.hopper import LOG2_E, PLAIN, REMEMBERED_AT_MOST, padded_head_dim
from ioaware.kernels.attention.hopper_plan import masked_blocks
from ioaware.kernels.attention.relaunch import Launch, same_view
from ioaware.kernels.attention.tma_views import processors, suits_tma, tma_view

FUSED_ROWS = {64: 128, 128: 64}
"""Rows of a block in the fused kernel, for each padded head_dim that it has registers for."""
FUSED: Mapping[str, int] = {"STAGES": 2, "REGISTERS": 240}
KEYS_VALUES: Mapping[str, int] = {"STAGES": 2, "REGISTERS": 240}
QUERIES: Mapping[int, Mapping[str, int]] = {
    64: {"BLOCK_N": 128, "K_STAGES": 2, "V_STAGES": 2, "REGISTERS": 240},
    128: {"BLOCK_N": 64, "K_STAGES": 2, "V_STAGES": 2, "REGISTERS": 240},
    256: {"BLOCK_N": 64, "K_STAGES": 2, "V_STAGES": 1, "REGISTERS": 240},
}
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def is_fused(head_dim: int, *, deterministic: bool) -> bool:
    """Whether one kernel computes all three gradients. It adds to dQ from many programs at once, in any order."""
    return padded_head_dim(head_dim) in FUSED_ROWS and not deterministic


def hopper_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    *, causal: bool, scale: float, deterministic: bool = False,
) -> Gradients:  # fmt: skip
    """dQ, dK and dV of what hopper_forward returned as o and lse [batch, heads, seq_len]. q, o, do [batch, heads, seq_len,
    head_dim]; k, v [batch, kv_heads, kv_len, head_dim]. do has any strides, though such as TMA cannot take cost a copy."""
    if not {type(tensor) for tensor in (q, k, v, do)} <= PLAIN:
        do = _suiting(do)
        return Prepared.of(q, k, v, o, do, causal, scale, deterministic)(q, k, v, o, lse, do)
    layout = (q.shape, q.stride(), k.shape, k.stride(), v.stride(), o.stride(), do.stride())
    key = (*layout, q.dtype, q.device.index, causal, scale, deterministic)
    prepared = _PREPARED.get(key) if do.data_ptr() % 16 == 0 else None
    if prepared is None:
        copy = _suiting(do)
        if copy is not do:
            return hopper_backward(q, k, v, o, lse, copy, causal=causal, scale=scale, deterministic=deterministic)
        if len(_PREPARED) >= REMEMBERED_AT_MOST:
            _PREPARED.clear()
        prepared = _PREPARED[key] = Prepared.of(q, k, v, o, do, causal, scale, deterministic)
    return prepared(q, k, v, o, lse, do)


def _suiting(do: torch.Tensor) -> torch.Tensor:
    return do if suits_tma(do) else do.clone(memory_format=torch.contiguous_format)


_PREPARED: dict[tuple[object, ...], Prepared] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a kernel that takes TMA's views of the tensors of these names, then others."""

    launch: Launch
    views: Mapping[str, Any]
    numbers: tuple[float, ...]

    def __call__(self, tensors: Mapping[str, torch.Tensor], *others: torch.Tensor) -> None:
        """Launches for tensors like those that the views were made of."""
        views = (same_view(view, tensors[name]) for name, view in self.views.items())
        self.launch(*views, *others, *self.numbers)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything about a backward pass that the shapes, strides, dtype, device, mask and scale determine."""

    prepare: Launch
    prepare_numbers: tuple[int, ...]
    steps: tuple[Step, ...]
    finish: Launch | None
    finish_numbers: tuple[float, ...]
    strides: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    rows_shape: tuple[int, int, int, int]
    sums_shape: tuple[int, ...]

    @staticmethod
    def of(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, do: torch.Tensor,
        causal: bool, scale: float, deterministic: bool,
    ) -> Prepared:  # fmt: skip
        """Descriptors and numbers for the first call with such tensors."""
        from ioaware.kernels.attention.hopper_ends import finish_kernel, prepare_kernel

        batch, heads, seq_len, head_dim = q.shape
        width = padded_head_dim(head_dim)
        fused = is_fused(head_dim, deterministic=deterministic)
        block_m = FUSED_ROWS[width] if fused else 64
        blocks = -(-seq_len // block_m)
        tensors = {"q": q, "k": k, "v": v, "do": do, "dq": _like(q), "dk": _like(k), "dv": _like(v)}
        ends = {"HEAD_DIM": head_dim, "WIDTH": width, "BLOCK_M": block_m, "SUMS": fused}
        steps = _fused(tensors, causal, scale) if fused else _apart(tensors, causal, scale)
        finish = None
        if fused:
            pieces = width // 64
            constants = {"HEAD_DIM": head_dim, "PIECES": pieces}
            finish = Launch("attention", finish_kernel, (blocks * block_m // 64 * pieces, heads, batch), q.device, constants)
        return Prepared(
            prepare=Launch("attention", prepare_kernel, (blocks, heads, batch), q.device, ends),
            prepare_numbers=(*o.stride()[:3], *do.stride()[:3], seq_len),
            steps=steps,
            finish=finish,
            finish_numbers=(*tensors["dq"].stride()[:3], seq_len, scale),
            strides=(tensors["dq"].stride(), tensors["dk"].stride(), tensors["dv"].stride()),
            rows_shape=(batch * heads, blocks, 2, block_m),
            sums_shape=(batch * heads, blocks, block_m * width) if fused else (1,),
        )

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor
    ) -> Gradients:
        """Launches for tensors that have what this was prepared from."""
        dq, dk, dv = (x.new_empty_strided(x.shape, strides) for x, strides in zip((q, k, v), self.strides, strict=True))
        rows = torch.empty(self.rows_shape, dtype=torch.float32, device=q.device)
        sums = torch.empty(self.sums_shape, dtype=torch.float32, device=q.device)
        self.prepare(o, do, lse, rows, sums, *self.prepare_numbers)
        tensors = {"q": q, "k": k, "v": v, "do": do, "dq": dq, "dk": dk, "dv": dv}
        for step in self.steps:
            step(tensors, rows, sums) if self.finish else step(tensors, rows)
        if self.finish:
            self.finish(sums, dq, *self.finish_numbers)
        return dq, dk, dv


def _fused(tensors: Mapping[str, torch.Tensor], causal: bool, scale: float) -> tuple[Step, ...]:
    """One kernel for all gradients, which adds to dQ's sums."""
    from ioaware.kernels.attention.hopper_backward import hopper_backward_kernel

    kv_len, width = tensors["k"].shape[2], padded_head_dim(tensors["q"].shape[3])
    block_m = FUSED_ROWS[width]
    boxes = {"q": block_m, "k": 128, "v": 128, "do": block_m, "dk": 64, "dv": 64}
    constants = {"CAUSAL": causal, "MASK": causal or kv_len % 128 != 0, "BLOCK_M": block_m, **FUSED}
    return (_step(hopper_backward_kernel, tensors, boxes, constants, 128, "k", causal, scale),)


def _apart(tensors: Mapping[str, torch.Tensor], causal: bool, scale: float) -> tuple[Step, ...]:
    """A kernel for dK and dV and one for dQ, in which every gradient has one writer."""
    from ioaware.kernels.attention.hopper_dkdv import dkdv_kernel
    from ioaware.kernels.attention.hopper_dq import dq_kernel

    q, k = tensors["q"], tensors["k"]
    seq_len, kv_len, width = q.shape[2], k.shape[2], padded_head_dim(q.shape[3])
    boxes = {"q": 64, "k": 64, "v": 64, "do": 64, "dk": 64, "dv": 64}
    masked = 0  # keys beyond kv_len get gradients that nobody writes
    if causal:  # the diagonal is in the first row block of each head in the group, or in the first two
        masked = 1 if (kv_len - seq_len) % 64 == 0 and q.shape[1] == k.shape[1] else 2
    constants = {"CAUSAL": causal, "MASKED": masked, **KEYS_VALUES}
    keys_values = _step(dkdv_kernel, tensors, boxes, constants, 64, "k", causal, scale)
    block_n = QUERIES[width]["BLOCK_N"]
    boxes = {"q": 64, "k": block_n, "v": block_n, "do": 64, "dq": 64}
    constants = {"CAUSAL": causal, "MASKED": masked_blocks(seq_len, kv_len, block_n, causal=causal), **QUERIES[width]}
    return keys_values, _step(dq_kernel, tensors, boxes, constants, 128, "q", causal, scale)


def _step(
    kernel: Any, tensors: Mapping[str, torch.Tensor], boxes: Mapping[str, int], constants: Mapping[str, Any],
    block: int, over: str, causal: bool, scale: float,
) -> Step:  # fmt: skip
    """A launch with views of the tensors in boxes of so many rows, as many programs as there are SMs, each of which works on
    blocks of so many rows of the tensor `over`, in pairs where causal."""
    q, k = tensors["q"], tensors["k"]
    width = padded_head_dim(q.shape[3])
    batch, heads, rows, _ = tensors[over].shape
    blocks = -(-rows // block)
    hands = batch * heads * (-(-blocks // 2) if causal else blocks)
    programs = min(hands, processors(q.device.index or 0))
    return Step(
        launch=Launch("attention", kernel, (programs,), q.device, constants, num_warps=4),
        views={name: tma_view(tensors[name], rows, width) for name, rows in boxes.items()},
        numbers=(q.shape[2], k.shape[2], heads, batch * heads, q.shape[1] // k.shape[1], scale, scale * LOG2_E),
    )


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without data, with the strides of this one's gradient."""
    like = torch.empty_like(tensor, device="meta")
    return like if suits_tma(like) else torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
