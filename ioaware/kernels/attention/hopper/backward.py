"""Prepare and launch the Hopper backward kernels on the host.

It decides which kernels run for a head_dim, their tiling and buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ioaware.kernels.attention.constants import LOG2_E
from ioaware.kernels.attention.hopper.backward_pass.backward_config import BLOCK_N, FUSED_ROWS, PIECE, BackwardTiling
from ioaware.kernels.attention.hopper.forward import MAX_CACHED_CALLS, PLAIN, padded_head_dim
from ioaware.kernels.attention.hopper.forward_config import masked_blocks
from ioaware.kernels.attention.launching.launch_cache import Launch, same_view
from ioaware.kernels.attention.launching.tma import processors, suits_tma, tma_view

FUSED: Mapping[str, int] = {"STAGES": 2, "REGISTERS": 240}
KEYS_VALUES: Mapping[str, int] = {"STAGES": 2, "REGISTERS": 240}
QUERIES: Mapping[int, Mapping[str, int]] = {
    64: {"BLOCK_N": 128, "K_STAGES": 2, "V_STAGES": 2, "REGISTERS": 240},
    128: {"BLOCK_N": 64, "K_STAGES": 2, "V_STAGES": 2, "REGISTERS": 240},
    256: {"BLOCK_N": 64, "K_STAGES": 2, "V_STAGES": 1, "REGISTERS": 240},
}
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def is_fused(head_dim: int, *, deterministic: bool) -> bool:
    """Return whether one kernel computes all three gradients.

    It adds to dQ from many CTAs in any order.
    """
    return padded_head_dim(head_dim) in FUSED_ROWS and not deterministic


def hopper_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    *, causal: bool, scale: float, deterministic: bool = False, persistent: bool = True,
) -> Gradients:  # fmt: skip
    """Return dQ, dK and dV after hopper_forward.

    That call returned o and lse [batch, heads, seq_len].

    q, o, do [batch, heads, seq_len, head_dim]; k, v [batch, kv_heads, kv_len, head_dim]. do has any strides; those that TMA
    cannot take cost a copy. Unless persistent, a CTA of the kernel of all gradients takes one work item.
    """
    if not {type(tensor) for tensor in (q, k, v, do)} <= PLAIN:
        do = _for_tma(do)
        return PreparedCall.of(q, k, v, o, do, causal, scale, deterministic, persistent)(q, k, v, o, lse, do)
    layout = (q.shape, q.stride(), k.shape, k.stride(), v.stride(), o.stride(), do.stride())
    key = (*layout, q.dtype, q.device.index, causal, scale, deterministic, persistent)
    prepared = _CALLS.get(key) if do.data_ptr() % 16 == 0 else None
    if prepared is None:
        copy = _for_tma(do)
        if copy is not do:
            return hopper_backward(
                q, k, v, o, lse, copy, causal=causal, scale=scale, deterministic=deterministic, persistent=persistent
            )
        if len(_CALLS) >= MAX_CACHED_CALLS:
            _CALLS.clear()
        prepared = _CALLS[key] = PreparedCall.of(q, k, v, o, do, causal, scale, deterministic, persistent)
    return prepared(q, k, v, o, lse, do)


def _for_tma(do: torch.Tensor) -> torch.Tensor:
    """Return do, or a contiguous copy where TMA cannot take its strides."""
    return do if suits_tma(do) else do.clone(memory_format=torch.contiguous_format)


_CALLS: dict[tuple[object, ...], PreparedCall] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a kernel with TMA views.

    The parameters are views of some tensors, then other tensors, then scalars.
    """

    launch: Launch
    views: Mapping[str, Any]
    others: tuple[str, ...]
    numbers: tuple[float, ...]

    def __call__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Launch for tensors like those that the views were made of."""
        views = (same_view(view, tensors[name]) for name, view in self.views.items())
        self.launch(*views, *(tensors[name] for name in self.others), *self.numbers)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """Everything in a backward pass that does not depend on the data.

    Shapes, strides, dtype, device, mask and scale determine it.
    """

    steps: tuple[Step, ...]
    strides: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    statistics_shape: tuple[int, int, int, int]
    sums_shape: tuple[int, ...]
    parts: int
    """Elements of the accumulators of dK and dV."""

    @staticmethod
    def of(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, do: torch.Tensor,
        causal: bool, scale: float, deterministic: bool, persistent: bool,
    ) -> PreparedCall:  # fmt: skip
        """Make descriptors and scalars for tensors like these."""
        batch, heads, seq_len, head_dim = q.shape
        width = padded_head_dim(head_dim)
        tensors = {"q": q, "k": k, "v": v, "o": o, "do": do, "dq": _like(q), "dk": _like(k), "dv": _like(v)}
        block_m, sums_shape, parts, zeros = 64, (1,), 0, False
        if is_fused(head_dim, deterministic=deterministic):
            tiling = _tiling(q, k, causal, persistent)
            block_m, sums_shape, parts, zeros = tiling.block_m, tiling.sums_shape, tiling.parts, not tiling.whole
            steps = _fused(tensors, tiling, scale, persistent)
        else:
            steps = _two_kernels(tensors, causal, scale)
        blocks = -(-seq_len // block_m)
        constants = {"HEAD_DIM": head_dim, "WIDTH": width, "BLOCK_M": block_m, "SUMS": zeros}
        return PreparedCall(
            steps=(_preprocess(tensors, (blocks, heads, batch), constants, parts), *steps),
            strides=(tensors["dq"].stride(), tensors["dk"].stride(), tensors["dv"].stride()),
            statistics_shape=(batch * heads, blocks, 2, block_m),
            sums_shape=sums_shape,
            parts=parts,
        )

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor
    ) -> Gradients:
        """Launch for tensors with the same properties."""
        dq, dk, dv = (x.new_empty_strided(x.shape, strides) for x, strides in zip((q, k, v), self.strides, strict=True))
        rows = torch.empty(self.statistics_shape, dtype=torch.float32, device=q.device)
        sums = torch.empty(self.sums_shape, dtype=torch.float32, device=q.device)
        parts = torch.empty(self.parts, dtype=torch.float32, device=q.device) if self.parts else sums
        tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do, "dq": dq, "dk": dk, "dv": dv}
        tensors.update(rows=rows, sums=sums, parts=parts)
        for step in self.steps:
            step(tensors)
        return dq, dk, dv


def _preprocess(
    tensors: Mapping[str, torch.Tensor], grid: tuple[int, int, int], constants: Mapping[str, Any], parts: int
) -> Step:
    """Return the step before all gradients."""
    from ioaware.kernels.attention.hopper.backward_pass.backward_preprocess import prepare_kernel

    o, do, seq_len = tensors["o"], tensors["do"], tensors["q"].shape[2]
    return Step(
        launch=Launch("attention", prepare_kernel, grid, o.device, constants),
        views={},
        others=("o", "do", "lse", "rows", "sums", "parts"),
        numbers=(*o.stride()[:3], *do.stride()[:3], seq_len, parts // PIECE),
    )


def _tiling(q: torch.Tensor, k: torch.Tensor, causal: bool, persistent: bool) -> BackwardTiling:
    """Return the fused kernel's tiling for this GPU.

    A last round of persistent CTAs alone may be divided by rows.
    """
    from ioaware.kernels.attention.hopper.gluon_compat import SINCE_3_9

    (batch, kv_heads, kv_len, head_dim), programs = k.shape, processors(q.device.index or 0)
    spills = SINCE_3_9.value and padded_head_dim(head_dim) == 128 and kv_len % BLOCK_N > 0  # if divide, and only then
    return BackwardTiling.of(
        head_dim, q.shape[2], kv_len, q.shape[1] // kv_heads, batch * kv_heads, programs, causal=causal,
        divides=persistent and not spills,
    )  # fmt: skip


def _fused(
    tensors: Mapping[str, torch.Tensor], tiling: BackwardTiling, scale: float, persistent: bool
) -> tuple[Step, ...]:  # fmt: skip
    """Return the kernel of all gradients and the kernels that end its sums.

    The first adds to accumulators, the others read those. CTAs with whole heads are always persistent: each has an accumulator.
    """
    from ioaware.kernels.attention.hopper.backward_pass.backward_kernel import hopper_backward_kernel

    width = padded_head_dim(tensors["q"].shape[3])
    rows, piece = (tiling.block_m, width), (64, 64)
    boxes = {"q": rows, "k": (128, width), "v": (128, width), "do": rows, "dq": piece, "dk": (64, width), "dv": (64, width)}
    constants = {**tiling.constants(float16=tensors["q"].dtype == torch.float16), **FUSED}
    fused = _step(
        hopper_backward_kernel, tensors, boxes, constants, "k", tiling.work_items, scale, *tiling.schedule,
        persistent=persistent or tiling.whole,
    )  # fmt: skip
    return fused, *_postprocess(tensors, tiling, scale)


def _postprocess(tensors: Mapping[str, torch.Tensor], tiling: BackwardTiling, scale: float) -> Iterator[Step]:
    """Yield the steps that compute dQ, dK and dV from their accumulators."""
    from ioaware.kernels.attention.hopper.backward_pass.backward_postprocess import finish_kernel, finish_parts_kernel

    dq, dk, dv = (tensors[name] for name in ("dq", "dk", "dv"))
    batch, heads, seq_len, head_dim = dq.shape
    device, constants = tensors["q"].device, {"HEAD_DIM": head_dim, "PIECES": padded_head_dim(head_dim) // 64}
    if not tiling.whole:
        grid = (tiling.sums_shape[1] // PIECE, heads, batch)
        launch = Launch("attention", finish_kernel, grid, device, constants)
        yield Step(launch, {}, ("sums", "dq"), (*dq.stride()[:3], seq_len, scale))
    if tiling.parts:
        launch = Launch("attention", finish_parts_kernel, (tiling.parts // (2 * PIECE),), device, constants)
        _, kv_heads, kv_len, _ = dk.shape
        sides = (2 * tiling.blocks, 2 * (tiling.blocks * tiling.batch_heads - tiling.left))
        numbers = (*dk.stride()[:3], *dv.stride()[:3], kv_len, kv_heads, *sides, scale)
        yield Step(launch, {}, ("parts", "dk", "dv"), numbers)


def _two_kernels(tensors: Mapping[str, torch.Tensor], causal: bool, scale: float) -> tuple[Step, ...]:
    """Return a kernel for dK and dV and one for dQ, without atomics.

    Every gradient has one writer.
    """
    from ioaware.kernels.attention.hopper.backward_pass.dkdv_kernel import dkdv_kernel
    from ioaware.kernels.attention.hopper.backward_pass.dq_kernel import dq_kernel

    q, k = tensors["q"], tensors["k"]
    seq_len, kv_len, width = q.shape[2], k.shape[2], padded_head_dim(q.shape[3])
    rows = (64, width)
    boxes: dict[str, tuple[int, int]] = dict.fromkeys(("q", "k", "v", "do", "dk", "dv"), rows)
    masked = 0  # gradients of keys beyond kv_len are not stored
    if causal:  # the diagonal is in the first row block of each head in the group, or in the first two
        masked = 1 if (kv_len - seq_len) % 64 == 0 and q.shape[1] == k.shape[1] else 2
    constants = {"CAUSAL": causal, "MASKED": masked, **KEYS_VALUES}
    keys_values = _step(dkdv_kernel, tensors, boxes, constants, "k", _work_items(k, 64, causal), scale)
    block_n = QUERIES[width]["BLOCK_N"]
    boxes = {"q": rows, "k": (block_n, width), "v": (block_n, width), "do": rows, "dq": rows}
    constants = {"CAUSAL": causal, "MASKED": masked_blocks(seq_len, kv_len, block_n, causal=causal), **QUERIES[width]}
    return keys_values, _step(dq_kernel, tensors, boxes, constants, "q", _work_items(q, 128, causal), scale)


def _work_items(tensor: torch.Tensor, block: int, causal: bool) -> int:
    """Return how many blocks of so many rows a tensor has.

    Where causal, the number is that of pairs of blocks.
    """
    batch, heads, rows, _ = tensor.shape
    blocks = -(-rows // block)
    return batch * heads * (-(-blocks // 2) if causal else blocks)


def _step(
    kernel: Any, tensors: Mapping[str, torch.Tensor], boxes: Mapping[str, tuple[int, int]], constants: Mapping[str, Any],
    over: str, items: int, scale: float, *more: int, persistent: bool = True,
) -> Step:  # fmt: skip
    """Return a launch of one CTA per SM with TMA views of the tensors.

    Unless persistent, there is one for each work item.

    The views' boxes have so many rows and columns.

    Its work items are `items` blocks, or pairs of blocks, of the tensor `over`.
    """
    q, k = tensors["q"], tensors["k"]
    batch, heads, _, _ = tensors[over].shape
    programs = min(items, processors(q.device.index or 0)) if persistent else items
    return Step(
        launch=Launch("attention", kernel, (programs,), q.device, constants, num_warps=4),
        views={name: tma_view(tensors[name], *box) for name, box in boxes.items()},
        others=("rows", "sums", "parts") if "Sums" in kernel.arg_names else ("rows",),
        numbers=(q.shape[2], k.shape[2], heads, batch * heads, q.shape[1] // k.shape[1], *more, scale, scale * LOG2_E.value),
    )


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without data, with the strides of this one's gradient."""
    like = torch.empty_like(tensor, device="meta")
    return like if suits_tma(like) else torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
