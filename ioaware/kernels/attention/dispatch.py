"""`attention`: softmax(scale Q K^T) V for PyTorch users, with gradients, by the fastest kernel that can do it."""

from __future__ import annotations

import math
import threading
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from torch.autograd.function import once_differentiable

from ioaware.errors import UsageError
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.decode.forward import decode_forward
from ioaware.kernels.attention.decode.num_splits import decode_refusal
from ioaware.kernels.attention.hopper.backward import hopper_backward, is_fused
from ioaware.kernels.attention.hopper.forward import PLAIN, REMEMBERED_AT_MOST, hopper_forward, refusal
from ioaware.kernels.attention.portable.backward import attention_backward
from ioaware.kernels.attention.portable.forward import portable_forward

BackendName = Literal["hopper", "triton", "decode"]


FORWARD = {"hopper": hopper_forward, "triton": portable_forward, "decode": decode_forward}


class Backend(NamedTuple):
    """Which kernel ran, and why that one."""

    name: BackendName
    why: str


class Attention:
    """The callable behind `attention`."""

    def __init__(self) -> None:
        self._last = threading.local()

    @property
    def backend(self) -> Backend | None:
        """What this thread's last call ran and why; None before the first."""
        return cast("Backend | None", getattr(self._last, "backend", None))

    @property
    def backward_backend(self) -> Backend | None:
        """What computes the gradients of this thread's last call that had any, and why; None before the first."""
        return cast("Backend | None", getattr(self._last, "backward", None))

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool = False,
        scale: float | None = None,
        *,
        backend: BackendName | None = None,
        deterministic: bool | None = None,
    ) -> torch.Tensor:
        """softmax(scale Q K^T) V, like q, with gradients for q, k and v.

        q [batch, heads, seq_len, head_dim]; k, v [batch, kv_heads, kv_len, head_dim], where kv_heads divides heads: heads that
        follow one another share a key head. float16, bfloat16 or float32; any strides, without copies. causal aligns the last
        query with the last key; a row that sees no key gives zeros. scale is 1/sqrt(head_dim) unless given.
        backend "hopper", "triton" or "decode" (seq_len up to 16) asks for one of the kernels; without it, `attention.backend`
        tells which ran and why.
        deterministic asks for gradients with the same bits every time, as torch.use_deterministic_algorithms does where it is
        left out: the Hopper kernel for head_dims up to 128 adds to q's gradient in any order otherwise.
        `attention.backward_backend` tells what computes the gradients. The output has the same bits every time in any case.
        Raises UsageError for tensors that cannot work, and where the backend asked for cannot do it.
        """
        chosen, factor = _settled(q, k, v, scale, backend)
        if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
            in_order = torch.are_deterministic_algorithms_enabled() if deterministic is None else deterministic
            o = cast("torch.Tensor", _Differentiable.apply(q, k, v, causal, factor, chosen.name, in_order))
            self._last.backward = gradients_by(chosen, q.shape[3], deterministic=in_order)
        else:
            o, _ = _forward(q, k, v, causal, factor, chosen.name)
        self._last.backend = chosen
        return o


attention = Attention()
"""attention(q, k, v, causal=False, scale=None, *, backend=None) -> o; see Attention.__call__."""


_SETTLED: dict[tuple[object, ...], tuple[Backend, float]] = {}


def _settled(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, asked: BackendName | None
) -> tuple[Backend, float]:
    """The checks, the choice and the scale, remembered by all that they look at: they cost as much as the launch."""
    if not {type(q), type(k), type(v)} <= PLAIN or not (scale is None or type(scale) is float):
        return _settle(q, k, v, scale, asked)
    if not q.dim() == k.dim() == v.dim() == 4:
        return _settle(q, k, v, scale, asked)
    # How many keys there are matters to nothing here, and caches grow: only whether there are none, one, or more.
    keys = (k.shape[:2], min(k.shape[2], 2), k.shape[3], k.shape == v.shape)
    layout = (q.shape, q.stride(), *keys, k.stride(), v.stride(), q.dtype, k.dtype, v.dtype)
    aligned = (q.data_ptr() | k.data_ptr() | v.data_ptr()) % 16 == 0
    key = (*layout, q.device, k.device, v.device, aligned, scale, asked)
    settled = _SETTLED.get(key)
    if settled is None:
        if len(_SETTLED) >= REMEMBERED_AT_MOST:
            _SETTLED.clear()
        settled = _SETTLED[key] = _settle(q, k, v, scale, asked)
    return settled


def _settle(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, asked: BackendName | None
) -> tuple[Backend, float]:
    _check(q, k, v, scale)
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else float(scale)
    return choose(q, k, v, factor, asked), factor


def choose(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, asked: BackendName | None) -> Backend:
    """The backend for these tensors. Raises UsageError if `asked` names none or one that cannot work on them."""
    if asked not in (None, *get_args(BackendName)):
        known = ", ".join(map(repr, get_args(BackendName)))
        raise UsageError(f"attention: there is no backend {asked!r}", f"Ask for one of {known}, or leave it out.")
    if asked == "triton":
        return Backend("triton", "asked for")
    if asked in (None, "decode"):
        no_decode = decode_refusal(q)
        if no_decode is None:
            return Backend("decode", "asked for" if asked else f"{q.shape[2]} queries a head: its programs split the keys")
        if asked == "decode":
            raise UsageError(f"attention: decode cannot do this: {no_decode}", "Leave out backend to take the one that can.")
    why_not = refusal(q, k, v, scale)
    if why_not is None:
        return Backend("hopper", "asked for" if asked else "the fastest on this GPU")
    if asked == "hopper":
        raise UsageError(
            f"attention: the Hopper kernel cannot do this: {why_not}", "Leave out backend to take the one that can."
        )
    return Backend("triton", f"the Hopper kernel cannot do this: {why_not}")


def gradients_by(chosen: Backend, head_dim: int, *, deterministic: bool) -> Backend:
    """What computes the gradients after a forward pass by `chosen`."""
    if chosen.name != "hopper":
        return Backend("triton", "the forward pass was not the Hopper kernel's; deterministic")
    if is_fused(head_dim, deterministic=deterministic):
        return Backend("hopper", "one kernel, which adds to q's gradient in any order")
    return Backend("hopper", "asked to be deterministic" if head_dim <= 128 else "deterministic")


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None) -> None:
    head_of_each_group = q
    if q.dim() == k.dim() == 4 and 0 < k.shape[1] < q.shape[1]:
        if q.shape[1] % k.shape[1]:
            raise UsageError(
                f"attention: {q.shape[1]} heads cannot share {k.shape[1]} key heads evenly",
                "kv_heads must divide heads.",
            )
        head_of_each_group = q[:, :: q.shape[1] // k.shape[1]]
    check_attention("attention", head_of_each_group, k, v, scale=scale, block_m=64, block_n=64)


def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, backend: BackendName
) -> tuple[torch.Tensor, torch.Tensor]:
    return FORWARD[backend](q, k, v, causal=causal, scale=scale)


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q, k, v, causal: bool, scale: float, backend: BackendName, deterministic: bool) -> torch.Tensor:
        o, lse = _forward(q, k, v, causal, scale, backend)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal, ctx.scale, ctx.backend, ctx.deterministic = causal, scale, backend, deterministic
        return o

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor) -> Any:
        # What refuses second derivatives is costly to enter, and there are none without create_graph.
        return (_gradients_once if torch.is_grad_enabled() else _gradients)(ctx, do)


def _gradients(ctx: Any, do: torch.Tensor) -> Any:
    q, k, v, o, lse = ctx.saved_tensors
    if ctx.backend == "hopper":
        grads = hopper_backward(q, k, v, o, lse, do, causal=ctx.causal, scale=ctx.scale, deterministic=ctx.deterministic)
    else:
        grads = attention_backward(q, k, v, o, lse, do, causal=ctx.causal, scale=ctx.scale)
    return (*grads, None, None, None, None)


_gradients_once = once_differentiable(_gradients)
