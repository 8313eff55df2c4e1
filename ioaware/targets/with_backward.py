"""Follow a function by the backward pass of what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from ioaware.errors import UsageError


def with_backward(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another and computes the gradients.

    Each floating-point tensor among its arguments gets one. A result of one number starts at 1, as `backward()` does. The
    gradient of any other one has memory and no values, so that making it moves no bytes.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        import torch

        leaves: list[Any] = []

        def leaf(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value = value.detach().requires_grad_()
                leaves.append(value)
            elif type(value) in (list, tuple):
                return type(value)(map(leaf, value))
            return value

        with torch.enable_grad():
            returned = function(*map(leaf, args), **{name: leaf(value) for name, value in kwargs.items()})
        results = [one for one in _tensors(returned) if one.requires_grad]
        if not results:
            raise UsageError(
                f"{_name(function)} returns nothing that has a gradient", "Derive the call without its backward pass."
            )
        starts = [torch.empty_like(one) if one.dim() else None for one in results]
        gradient: Any = torch.autograd.grad
        return returned, gradient(results, leaves, starts, allow_unused=True)

    call.__qualname__ = f"{_name(function)} with its backward pass"
    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return call


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors of a value that a function returned."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
