"""`attention` as operators that torch.compile, torch.func and autocast understand.

`ioaware::attention` returns O and its log-sum-exp; `ioaware::attention_backward` returns the gradients. Both have fake kernels,
so that a graph is traced without running them. An operator's dispatch costs more host time than a launch: `attention` uses it
only where a graph is traced, in a transform, under autocast, and for the log-sum-exp.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ioaware.errors import UsageError
from ioaware.kernels.attention.dispatch import BackendName, backward_by, cached_choice, check_tensors, forward_by

AUTOMATIC = ""
"""The backend argument that lets the tensors decide.

An operator's schema has no choice of strings.
"""


def attention_operator(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    *,
    backend: BackendName | None = None,
    deterministic: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what `attention` returns, and the log-sum-exp, by the operator.

    The logarithm is natural; the shape is [batch, heads, seq_len] in float32.

    Arguments and errors are those of `attention`. Under autocast the tensors are converted to its dtype first. The log-sum-exp
    has no gradient.
    """
    if torch.is_autocast_enabled(q.device.type):
        dtype = torch.get_autocast_dtype(q.device.type)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    in_order = torch.are_deterministic_algorithms_enabled() if deterministic is None else deterministic
    if torch._C._are_functorch_transforms_active():  # pyright: ignore[reportPrivateUsage]
        return _Transformed.apply(q, k, v, causal, factor, backend or AUTOMATIC, in_order)
    return forward_operator(q, k, v, causal, factor, backend or AUTOMATIC, in_order)


@torch.library.custom_op("ioaware::attention", mutates_args=())
def forward_operator(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, backend: str, deterministic: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O, like q, and the log-sum-exp; `deterministic` is for the gradients."""
    del deterministic
    chosen, factor, _ = cached_choice(q, k, v, scale, backend or None)  # pyright: ignore[reportArgumentType]
    return forward_by(q, k, v, causal, factor, chosen.name)


@torch.library.custom_op("ioaware::attention_backward", mutates_args=())
def backward_operator(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
    backend: str,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK and dV, like q, k and v."""
    chosen, factor, _ = cached_choice(q, k, v, scale, backend or None)  # pyright: ignore[reportArgumentType]
    return backward_by(q, k, v, o, lse.contiguous(), do, causal, factor, chosen.name, deterministic=deterministic)


@forward_operator.register_fake
def _(q: Any, k: Any, v: Any, causal: bool, scale: float, backend: str, deterministic: bool) -> Any:
    del causal, backend, deterministic
    check_tensors(q, k, v, scale)
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@backward_operator.register_fake
def _(do: Any, q: Any, k: Any, v: Any, *others: Any) -> Any:
    del do, others
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, ctx.causal, ctx.scale, ctx.backend, ctx.deterministic = inputs
    o, lse = output
    ctx.save_for_backward(q, k, v, o, lse)
    ctx.mark_non_differentiable(lse)


def _gradients(ctx: Any, do: torch.Tensor, dlse: torch.Tensor | None) -> tuple[Any, ...]:
    del dlse  # always zero
    grads = backward_operator(do, *ctx.saved_tensors, ctx.causal, ctx.scale, ctx.backend, ctx.deterministic)
    return (*grads, None, None, None, None)


forward_operator.register_autograd(_gradients, setup_context=_save)


class _Transformed(torch.autograd.Function):
    """The operator for torch.func.

    An operator's own autograd formula does not support those transforms.
    """

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return forward_operator(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor, dlse: torch.Tensor | None) -> tuple[Any, ...]:
        del dlse
        grads = _TransformedGradients.apply(do, *ctx.saved_tensors, ctx.causal, ctx.scale, ctx.backend, ctx.deterministic)
        return (*grads, None, None, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        return _batched(_Transformed.apply, info.batch_size, in_dims, arguments)


class _TransformedGradients(torch.autograd.Function):
    """The operator of the gradients for torch.func; it has no gradients of its own."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        return backward_operator(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save nothing."""

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        del ctx, gradients
        raise UsageError("attention has no second derivatives", "Use torch's scaled_dot_product_attention, its math backend.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        return _batched(_TransformedGradients.apply, info.batch_size, in_dims, arguments)


def _batched(operator: Any, size: int, in_dims: tuple[int | None, ...], arguments: tuple[Any, ...]) -> Any:
    """Apply an operator with the mapped axis folded into the batch.

    A tensor without the axis is repeated.
    """

    def folded(value: Any, axis: int | None) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        moved = value.expand(size, *value.shape) if axis is None else value.movedim(axis, 0)
        return moved.flatten(0, 1)

    outputs = operator(*(folded(value, axis) for value, axis in zip(arguments, in_dims, strict=True)))
    return tuple(output.unflatten(0, (size, -1)) for output in outputs), (0,) * len(outputs)
