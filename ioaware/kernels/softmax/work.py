"""Describe the softmax kernels as a `Work`.

It holds seeded inputs, the kernel, and its float64 reference.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ioaware.case import Work
from ioaware.kernels.attention.references.work import TOLERANCES
from ioaware.kernels.softmax.backward import softmax_bwd, softmax_bwd_one_read
from ioaware.kernels.softmax.cub import softmax_cub
from ioaware.kernels.softmax.eager import softmax_eager
from ioaware.kernels.softmax.materialised import softmax_materialised
from ioaware.kernels.softmax.one_read import softmax_one_read
from ioaware.kernels.softmax.online import softmax_lse, softmax_online
from ioaware.kernels.softmax.safe import softmax_safe

FORWARDS: dict[str, Callable[..., torch.Tensor]] = {
    one.__name__: one for one in (softmax_eager, softmax_materialised, softmax_cub, softmax_safe, softmax_online, softmax_lse)
}
BACKWARDS: dict[str, Callable[..., torch.Tensor]] = {"softmax_bwd": softmax_bwd, "softmax_bwd_one_read": softmax_bwd_one_read}


def softmax_work(name: str, *, device: str, rows: int, cols: int, dtype: str, block_n: int = 1024) -> Work:
    """Return the work of the kernel of that name on normal random numbers.

    Backward, of the y of a forward pass.
    """
    place = device if torch.cuda.is_available() else "cpu"  # a fake GPU draws no numbers
    generator = torch.Generator(place).manual_seed(0)
    x, dy = (
        torch.randn((rows, cols), generator=generator, dtype=getattr(torch, dtype), device=place).to(device) for _ in range(2)
    )
    chunk = {} if name.endswith("one_read") else {"block_n": block_n}
    if name in BACKWARDS:
        y = softmax_online(x)
        return Work(
            lambda: BACKWARDS[name](y, dy, **chunk),
            inputs=(y, dy),
            reference=lambda: _gradient(y, dy),
            tolerance=2 * TOLERANCES[x.dtype],
        )
    kernel = FORWARDS.get(name, softmax_one_read)
    log_sum_exp = name == "softmax_lse"
    return Work(
        lambda: kernel(x, **chunk),
        inputs=(x,),
        reference=lambda: torch.logsumexp(x.double(), 1) if log_sum_exp else torch.softmax(x.double(), 1),
        tolerance=TOLERANCES[x.dtype] * (2 if name == "softmax_eager" else 1),  # x - m is rounded too
    )


def _gradient(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """Return y (dy - rowsum(y dy)) in float64."""
    weights, gradient = y.double(), dy.double()
    return weights * (gradient - (weights * gradient).sum(1, keepdim=True))
