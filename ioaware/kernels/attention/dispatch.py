"""Compute softmax(scale Q K^T) V for PyTorch, with gradients.

`attention` takes the fastest kernel that supports the tensors.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Literal, NamedTuple, cast, get_args, overload

import torch
from torch.autograd.function import once_differentiable
from torch.compiler import is_compiling

from ioaware.errors import UsageError
from ioaware.kernels.attention.checks import check_attention
from ioaware.kernels.attention.decode.forward import decode_forward
from ioaware.kernels.attention.decode.num_splits import decode_refusal_reason
from ioaware.kernels.attention.hopper.backward import hopper_backward, is_fused
from ioaware.kernels.attention.hopper.forward import MAX_CACHED_CALLS, PLAIN, hopper_forward, refusal_reason
from ioaware.kernels.attention.portable.backward import attention_backward
from ioaware.kernels.attention.portable.forward import portable_forward

BackendName = Literal["hopper", "triton", "decode"]


FORWARD = {"hopper": hopper_forward, "triton": portable_forward, "decode": decode_forward}


class Backend(NamedTuple):
    """The kernel of a call, and the reason for it."""

    name: BackendName
    why: str


class Attention:
    """The callable behind `attention`."""

    def __init__(self) -> None:
        self._last = threading.local()

    @property
    def backend(self) -> Backend | None:
        """Kernel of this thread's last call, and the reason; None before the first."""
        return cast("Backend | None", getattr(self._last, "backend", None))

    @property
    def backward_backend(self) -> Backend | None:
        """Kernel of the gradients of this thread's last differentiable call.

        The reason stands beside it; None before the first call.
        """
        return cast("Backend | None", getattr(self._last, "backward", None))

    @overload
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
        return_lse: Literal[False] = False,
    ) -> torch.Tensor: ...

    @overload
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
        return_lse: Literal[True],
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

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
        return_lse: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Compute softmax(scale Q K^T) V, like q, with gradients for q, k and v.

        q [batch, heads, seq_len, head_dim]; k, v [batch, kv_heads, kv_len, head_dim], where kv_heads divides heads: consecutive
        heads share a key head. float16, bfloat16 or float32; any strides, without copies. causal aligns the last query with the
        last key; a row without a visible key gives zeros. scale is 1/sqrt(head_dim) unless given. backend "hopper", "triton" or
        "decode" (seq_len up to 16) selects a kernel; `attention.backend` is the kernel that ran and the reason. deterministic
        selects bitwise reproducible gradients; the default is torch.are_deterministic_algorithms_enabled(). Otherwise the
        Hopper kernel for head_dims up to 128 adds to q's gradient in any order. `attention.backward_backend` is the kernel of
        the gradients. The output is bitwise reproducible in any case. return_lse adds the natural log-sum-exp of the scaled
        scores, [batch, heads, seq_len] in float32, which has no gradient. Compiled, exported, in a transform of torch.func, for
        fake tensors, with return_lse, and for float32 under autocast, the operator of pytorch/custom_op.py runs instead: the
        same kernels, and more host time; `attention.backend` is not set then. Raises UsageError for unsupported tensors, and
        where the requested backend does not support them.
        """
        if return_lse or is_compiling() or _is_traced(q):
            return _by_operator(q, k, v, causal, scale, backend, deterministic, return_lse)
        try:
            chosen, factor, autocasts = cached_choice(q, k, v, scale, backend)
        except RuntimeError:  # a transform's tensor has no address
            if not torch._C._are_functorch_transforms_active():  # pyright: ignore[reportPrivateUsage]
                raise
            return _by_operator(q, k, v, causal, scale, backend, deterministic, return_lse)
        if autocasts and torch.is_autocast_enabled(q.device.type):
            return _by_operator(q, k, v, causal, scale, backend, deterministic, return_lse)
        if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
            in_order = torch.are_deterministic_algorithms_enabled() if deterministic is None else deterministic
            o = cast("torch.Tensor", _Differentiable.apply(q, k, v, causal, factor, chosen.name, in_order))
            self._last.backward = gradients_by(chosen, q.shape[3], deterministic=in_order)
        else:
            o, _ = forward_by(q, k, v, causal, factor, chosen.name)
        self._last.backend = chosen
        return o


def _is_traced(q: torch.Tensor) -> bool:
    """Return whether a graph is recorded, or the tensors have no data.

    A kernel would be missing in the graph, or fail.
    """
    modes: Any = torch._C  # pyright: ignore[reportPrivateUsage]
    if modes._len_torch_dispatch_stack() and modes._get_dispatch_mode(modes._TorchDispatchModeKey.PROXY) is not None:
        return True
    if type(q) in PLAIN:
        return False
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    return isinstance(q, FakeTensor) and type(q.fake_mode) is FakeTensorMode  # `derive` has one of its own, to see launches


def _by_operator(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float | None,
    backend: BackendName | None,
    deterministic: bool | None,
    return_lse: bool,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    from ioaware.kernels.attention.pytorch.custom_op import attention_operator

    o, lse = attention_operator(q, k, v, causal, scale, backend=backend, deterministic=deterministic)
    return (o, lse) if return_lse else o


attention = Attention()
"""attention(q, k, v, causal=False, scale=None, *, backend=None) -> o.

See Attention.__call__.
"""


_CHOICES: dict[tuple[object, ...], tuple[Backend, float, bool]] = {}


def cached_choice(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, requested: BackendName | None
) -> tuple[Backend, float, bool]:
    """Check the arguments and choose a backend and the scale, with a cache.

    Say whether autocast would convert the tensors.

    Why: both together cost as much as the launch.
    """
    plain = type(q) in PLAIN and type(k) in PLAIN and type(v) in PLAIN
    if not plain or not (scale is None or type(scale) is float):
        return _check_and_choose(q, k, v, scale, requested)
    if not q.dim() == k.dim() == v.dim() == 4:
        return _check_and_choose(q, k, v, scale, requested)
    # Key caches grow, and the choice does not depend on kv_len: only whether it is 0, 1 or more.
    keys = (k.shape[:2], min(k.shape[2], 2), k.shape[3], k.shape == v.shape)
    layout = (q.shape, q.stride(), *keys, k.stride(), v.stride(), q.dtype, k.dtype, v.dtype)
    aligned = (q.data_ptr() | k.data_ptr() | v.data_ptr()) % 16 == 0
    key = (*layout, q.device, k.device, v.device, aligned, scale, requested)
    choice = _CHOICES.get(key)
    if choice is None:
        if len(_CHOICES) >= MAX_CACHED_CALLS:
            _CHOICES.clear()
        choice = _CHOICES[key] = _check_and_choose(q, k, v, scale, requested)
    return choice


def _check_and_choose(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, requested: BackendName | None
) -> tuple[Backend, float, bool]:
    """Check the arguments, and choose the backend and the scale.

    The third value returned is whether autocast would convert the tensors.
    """
    check_tensors(q, k, v, scale)
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else float(scale)
    return choose(q, k, v, factor, requested), factor, q.dtype == torch.float32


def choose(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, requested: BackendName | None) -> Backend:
    """Return the backend for these tensors.

    Raises UsageError if `requested` does not exist or does not support them.
    """
    if requested not in (None, *get_args(BackendName)):
        known = ", ".join(map(repr, get_args(BackendName)))
        raise UsageError(f"attention: there is no backend {requested!r}", f"Choose one of {known}, or leave it out.")
    if requested == "triton":
        return Backend("triton", "requested")
    if requested in (None, "decode"):
        no_decode = decode_refusal_reason(q)
        if no_decode is None:
            return Backend("decode", "requested" if requested else f"{q.shape[2]} queries a head: its programs split the keys")
        if requested == "decode":
            raise UsageError(f"attention: decode cannot do this: {no_decode}", "Leave out backend to take the one that can.")
    why_not = refusal_reason(q, k, v, scale)
    if why_not is None:
        return Backend("hopper", "requested" if requested else "the fastest on this GPU")
    if requested == "hopper":
        raise UsageError(
            f"attention: the Hopper kernel cannot do this: {why_not}", "Leave out backend to take the one that can."
        )
    return Backend("triton", f"the Hopper kernel cannot do this: {why_not}")


def gradients_by(chosen: Backend, head_dim: int, *, deterministic: bool) -> Backend:
    """Return the backend of the gradients after a forward pass by `chosen`."""
    if chosen.name != "hopper":
        return Backend("triton", "the forward pass was not the Hopper kernel's; deterministic")
    if is_fused(head_dim, deterministic=deterministic):
        return Backend("hopper", "one kernel, which adds to q's gradient in any order")
    return Backend("hopper", "deterministic results requested" if head_dim <= 128 else "deterministic")


def check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None) -> None:
    """Raise UsageError for tensors that no backend takes."""
    head_of_each_group = q
    if q.dim() == k.dim() == 4 and 0 < k.shape[1] < q.shape[1]:
        if q.shape[1] % k.shape[1]:
            raise UsageError(
                f"attention: {q.shape[1]} heads cannot share {k.shape[1]} key heads evenly",
                "kv_heads must divide heads.",
            )
        head_of_each_group = q.narrow(1, 0, k.shape[1])  # no index: that needs CUDA, even of a fake tensor
    check_attention("attention", head_of_each_group, k, v, scale=scale, block_m=64, block_n=64)


def forward_by(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float,
    backend: BackendName,
    *,
    persistent: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and the log-sum-exp by a backend that supports the tensors.

    persistent: whether CTAs of the Hopper kernel may take several work items each; other kernels' never do.
    """
    if backend == "hopper" and not persistent:
        return hopper_forward(q, k, v, causal=causal, scale=scale, persistent=False)
    return FORWARD[backend](q, k, v, causal=causal, scale=scale)


def backward_by(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    causal: bool,
    scale: float,
    backend: BackendName,
    *,
    deterministic: bool,
    persistent: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK and dV after a forward pass by `backend`; lse is contiguous."""
    if backend == "hopper":
        return hopper_backward(
            q, k, v, o, lse, do, causal=causal, scale=scale, deterministic=deterministic, persistent=persistent
        )
    return attention_backward(q, k, v, o, lse, do, causal=causal, scale=scale)


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q, k, v, causal: bool, scale: float, backend: BackendName, deterministic: bool) -> torch.Tensor:
        o, lse = forward_by(q, k, v, causal, scale, backend)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal, ctx.scale, ctx.backend, ctx.deterministic = causal, scale, backend, deterministic
        return o

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor) -> Any:
        # The wrapper that refuses second derivatives is slow; without create_graph there are none.
        return (_gradients_first_order if torch.is_grad_enabled() else _gradients)(ctx, do)


def _gradients(ctx: Any, do: torch.Tensor) -> Any:
    q, k, v, o, lse = ctx.saved_tensors
    grads = backward_by(q, k, v, o, lse, do, ctx.causal, ctx.scale, ctx.backend, deterministic=ctx.deterministic)
    return (*grads, None, None, None, None)


_gradients_first_order = once_differentiable(_gradients)
