"""`context_parallel`: compute attention over the ranks of a group.

The group is one of torch.distributed, and each rank has a part of the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, cast, get_args

import torch
import torch.distributed as dist

from ioaware.errors import UsageError
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.distributed.agreement import agree, propose
from ioaware.kernels.attention.distributed.head_exchange import head_exchange_backward, head_exchange_forward
from ioaware.kernels.attention.distributed.layout import Layout
from ioaware.kernels.attention.distributed.local_attention import Gradients
from ioaware.kernels.attention.distributed.ring import ring_backward, ring_forward
from ioaware.kernels.attention.distributed.square import square_backward, square_forward
from ioaware.kernels.attention.distributed.transfers import Transfers

Method = Literal["ring", "all_gather", "all_to_all", "square"]
METHODS: tuple[Method, ...] = get_args(Method)
Saved = tuple[torch.Tensor, ...]
Forward = Callable[[Layout, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, Saved]]
Backward = Callable[[Layout, Saved, torch.Tensor], Gradients]
PASSES: dict[Method, tuple[Forward, Backward]] = {
    "ring": (ring_forward, ring_backward),
    "all_gather": (square_forward, square_backward),  # a grid of one column
    "all_to_all": (head_exchange_forward, head_exchange_backward),
    "square": (square_forward, square_backward),
}
BACKENDS = {"nccl": "cuda", "gloo": "cpu"}
"""The device of the tensors that a backend of torch.distributed takes here."""


def context_parallel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    *,
    method: Method = "ring",
    causal: bool = False,
    scale: float | None = None,
    grid: tuple[int, int] | None = None,
    timeout_s: float | None = None,
) -> torch.Tensor:
    """Compute this rank's part of softmax(scale Q K^T) V over ranks of `group`.

    All ranks of `group` take part. There are gradients for q, k and v.

    Every rank calls it with its part, as `shard_sequence` gives it: q [batch, heads, rows, head_dim], k and v
    [batch, kv_heads, key rows, head_dim], where kv_heads divides heads. float16, bfloat16 or float32; on GPUs with NCCL, on
    CPUs with gloo. A part may have no row. The parts of the output join to what `attention` returns for the whole tensors;
    causal aligns the last query with the last key, and a row without a visible key gives zeros. group is the default group
    unless given.

    method: "ring" sends K and V round; "all_gather" gathers them; "all_to_all" divides heads among ranks, whose number must
    divide heads, and divide kv_heads or be a multiple of them; "square" puts the ranks on a grid, whose rows share queries and
    whose columns share keys. grid: (rows, columns) of "square", unless given the squarest with rows >= columns.

    timeout_s limits each wait for another rank, and makes the host wait for the transfer; the group's own limit holds unless
    given. Raises UsageError on every rank for arguments that cannot work, or that differ between ranks, and MachineError for a
    transfer that did not complete: a rank that died, made no such call, or took longer. The group cannot be used afterwards.
    """
    transfers = _join_group(group, method, timeout_s if _is_limit(timeout_s) else None)
    try:  # whatever this rank refuses, the others are not left waiting for it
        factor, shape = _check(q, k, v, causal, scale, method, grid, timeout_s, transfers)
        gradients = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
        number = METHODS.index(method)
        proposal = propose(q, k, method=number, causal=causal, scale=factor, grid=shape, gradients=gradients)
    except Exception:
        agree(transfers, None)
        raise
    seq_len, kv_len = agree(transfers, proposal)
    layout = Layout(transfers, q.shape[1], k.shape[1], seq_len, kv_len, causal, factor, shape)
    if gradients:
        return cast("torch.Tensor", _Differentiable.apply(layout, method, q, k, v))
    return PASSES[method][0](layout, q, k, v)[0]


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: Layout, method: Method, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        o, saved = PASSES[method][0](layout, q, k, v)
        ctx.save_for_backward(*saved)
        ctx.layout, ctx.method = layout, method
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, do: torch.Tensor) -> Any:
        return (None, None, *PASSES[ctx.method][1](ctx.layout, ctx.saved_tensors, do.contiguous()))


def _join_group(group: dist.ProcessGroup | None, method: str, timeout_s: float | None) -> Transfers:
    """Return the transfers of this rank.

    Raises UsageError where there is no group, or this rank is not in it.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise UsageError(
            "context_parallel: there is no process group", "Call torch.distributed.init_process_group first, on every rank."
        )
    found = group if group is not None else dist.group.WORLD
    rank = dist.get_rank(found)
    if found is None or rank < 0:
        raise UsageError("context_parallel: this process is not in the group", "Call it only on the ranks of the group.")
    return Transfers(found, rank, dist.get_world_size(found), timeout_s, f"context_parallel, {method}")


def _is_limit(timeout_s: object) -> bool:
    """Return whether a time limit is None or a number of seconds."""
    return timeout_s is None or (isinstance(timeout_s, (int, float)) and 0 < timeout_s < math.inf)


def _check(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: object, scale: float | None, method: str, grid: object,
    timeout_s: object, transfers: Transfers,
) -> tuple[float, tuple[int, int]]:  # fmt: skip
    """Return the scale, and the grid of ranks.

    Raises UsageError for arguments that this rank can refuse alone.
    """
    what, ranks = transfers.what, transfers.ranks
    if not _is_limit(timeout_s):
        raise UsageError(f"{what}: timeout_s={timeout_s!r} is not a number of seconds", "Leave it out for the group's.")
    if not isinstance(causal, bool):
        raise UsageError(f"{what}: causal={causal!r} is neither True nor False", "Give one of the two.")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{what}: {name} is of type {type(x).__name__}, not a tensor", "Give q, k and v as tensors.")
    if method not in METHODS:
        raise UsageError(f"context_parallel: there is no method {method!r}", f"Methods: {', '.join(METHODS)}.")
    if not q.dim() == k.dim() == v.dim() == 4:
        shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in (("q", q), ("k", k), ("v", v)))
        raise UsageError(
            f"{what}: attention takes tensors of four dimensions, not {shapes}", "Give [batch, heads, seq_len, head_dim]."
        )
    heads, kv_heads = q.shape[1], k.shape[1]
    if not heads or not kv_heads or heads % kv_heads:
        raise UsageError(f"{what}: {heads} heads cannot share {kv_heads} key heads evenly", "kv_heads must divide heads.")
    factor = check_attention(
        what, *(_with_a_row(x) for x in (q[:, :: heads // kv_heads], k, v)), scale=scale, block_m=64, block_n=64
    ).scale
    backend = str(dist.get_backend(transfers.group))
    if BACKENDS.get(backend, q.device.type) != q.device.type:
        raise UsageError(
            f"{what}: tensors on {q.device} in a group of {backend}, which takes {BACKENDS[backend]} tensors here",
            "Put them on the rank's GPU for NCCL, on the CPU for gloo.",
        )
    if transfers.device and transfers.device != q.device:
        raise UsageError(
            f"{what}: tensors on {q.device}, but rank {transfers.rank} of the group is on {transfers.device}",
            "Call torch.cuda.set_device before init_process_group, and put the rank's tensors on that GPU.",
        )
    if method == "all_to_all" and (heads % ranks or (kv_heads % ranks and ranks % kv_heads)):
        raise UsageError(
            f"{what}: {heads} heads and {kv_heads} key heads cannot be divided among {ranks} ranks",
            "ranks must divide heads, and divide kv_heads or be a multiple of them; ring takes any number of ranks.",
        )
    if method != "square":
        if grid is not None:
            raise UsageError(f"{what}: takes no grid", 'Leave it out, or take method="square".')
        return factor, (ranks, 1)
    return factor, squarest_grid(ranks) if grid is None else _check_grid(what, grid, ranks)


def _with_a_row(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor like x of at least one row, without its values.

    A part may have no rows.
    """
    batch, heads, rows, head_dim = x.shape
    return x.new_empty(()).expand(batch, heads, max(rows, 1), head_dim)


def squarest_grid(ranks: int) -> tuple[int, int]:
    """Return (rows, columns) of the squarest grid with rows >= columns.

    The grid has at least as many rows as columns.
    """
    columns = next(c for c in range(math.isqrt(ranks), 0, -1) if ranks % c == 0)
    return ranks // columns, columns


def _check_grid(what: str, grid: object, ranks: int) -> tuple[int, int]:
    if isinstance(grid, tuple):
        sides = cast("tuple[object, ...]", grid)
        if len(sides) == 2:
            rows, columns = sides
            if isinstance(rows, int) and isinstance(columns, int) and min(rows, columns) > 0 and rows * columns == ranks:
                return rows, columns
    raise UsageError(f"{what}: grid={grid!r} is not (rows, columns) of {ranks} ranks", "Their product must be the ranks.")
