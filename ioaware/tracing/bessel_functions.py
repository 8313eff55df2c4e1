"""Bessel functions of integer order, elementwise in torch.

A negative order gives NaN, as in CUDA's math library.
"""

from __future__ import annotations

import math
from typing import Any

import torch as _torch

torch: Any = _torch
MORE_POINTS = 64
"""Points of the integral beyond twice the order and the argument."""


def jn(order: Any, x: Any) -> Any:
    """Return J of an integer order, the integral of cos(n t - x sin t) / pi.

    Why the integral: the midpoint rule is exact to rounding for a periodic function of few frequencies.
    """
    n, wide = torch.broadcast_tensors(order.double(), x.double())
    largest = float((torch.abs(n) + torch.abs(wide)).nan_to_num(0, 0, 0).max())
    points = 2 * math.ceil(largest) + MORE_POINTS
    total = torch.zeros_like(wide)
    for at in range(points):
        angle = math.pi * (at + 0.5) / points
        total = total + torch.cos(n * angle - wide * math.sin(angle))
    return torch.where(n < 0, math.nan, total / points).to(x.dtype)


def yn(order: Any, x: Any) -> Any:
    """Return Y of an integer order, by recurrence from the orders 0 and 1."""
    n, wide = torch.broadcast_tensors(order, x.double())
    lower, upper = torch.special.bessel_y0(wide), torch.special.bessel_y1(wide)
    found = torch.where(n < 0, math.nan, torch.where(n == 0, lower, upper))
    for at in range(1, int(n.max())):
        lower, upper = upper, 2 * at / wide * upper - lower
        found = torch.where(n == at + 1, upper, found)
    return found.to(x.dtype)


__all__ = ["jn", "yn"]
