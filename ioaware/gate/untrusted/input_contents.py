"""Make other contents for the inputs of a trial, copy tensors, and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_torch: Any = torch
SEED = 20_000
LOW, HIGH = 0.5, 1.5
RUN_TO_RUN = 1e-6
"""Largest difference between two runs, relative to the largest element.

Both runs are of one computation.
"""


def other_contents(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return other values for the inputs of a function, as seeded random numbers.

    A floating-point element is multiplied by 0.5 to 1.5, its sign drawn anew where the tensor has both signs. So zeros stay,
    probabilities stay positive and a triangle stays one. Integers may be indices and stay, unless no input is floating-point:
    then they are rolled by one place, or drawn from 0 to 127 where all of them are the same.
    """
    generator = torch.Generator().manual_seed(SEED)
    if any(_is_varied(tensor) for tensor in tensors):
        return [_scaled(tensor, generator) if _is_varied(tensor) else tensor.clone() for tensor in tensors]
    return [_rolled(tensor, generator) for tensor in tensors]


def _is_varied(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _scaled(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = tensor.to(torch.complex64 if tensor.is_complex() else torch.float32)
    factor = LOW + (HIGH - LOW) * _torch.rand(tensor.shape, generator=generator, device="cpu")
    if not tensor.is_complex() and bool((wide < 0).any()) and bool((wide > 0).any()):
        factor = factor * (1 - 2 * _torch.randint(0, 2, tensor.shape, generator=generator, device="cpu"))
    return (wide * factor).to(tensor.dtype)


def _rolled(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    flat = tensor.reshape(-1)
    if tensor.dtype is not torch.bool and bool((flat == flat[:1]).all()):
        return _torch.randint(0, 128, tensor.shape, generator=generator, device="cpu").to(tensor.dtype)
    return flat.roll(1).reshape(tensor.shape)


def write(tensors: Sequence[torch.Tensor], contents: Sequence[torch.Tensor]) -> None:
    """Give tensors these contents, in place."""
    with torch.no_grad():
        for tensor, values in zip(tensors, contents, strict=True):
            tensor.detach().copy_(values)


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies that nothing shares."""
    return [tensor.detach().clone() for tensor in tensors]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape, type and bits."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(torch.equal(_bits(one), _bits(other)))


def agree(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    """Return whether two outputs agree elementwise, relative to the largest element.

    NaN equals NaN.
    """
    if same_bits(one, other):
        return True
    if one.shape != other.shape or one.dtype != other.dtype or not one.is_floating_point():
        return False
    left, right = one.double(), other.double()
    scale = float(right[right.isfinite()].abs().max()) if bool(right.isfinite().any()) else 1.0
    return bool(torch.allclose(left, right, rtol=0.0, atol=tolerance * scale, equal_nan=True))


def agree_all(ones: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Return whether two runs of one computation agree up to rounding.

    They agree where they gave the same outputs.
    """
    return len(ones) == len(others) and all(agree(*pair, RUN_TO_RUN) for pair in zip(ones, others, strict=True))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
