"""Fixtures that run the paper kernels in Triton's interpreter.

Memory is poisoned with NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ioaware.kernels.attention.flash1 import flash1
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.standard import standard
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison

KERNELS: dict[str, Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]]] = {
    "standard": standard,
    "flash1": flash1,
    "flash2": flash2,
}


@pytest.fixture(params=KERNELS)
def kernel_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def attention(kernel_name: str) -> Callable[..., torch.Tensor]:
    """Return the kernel of that name, interpreted, with its output alone."""

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: object) -> torch.Tensor:
        with interpret_kernels(), Poison():
            output = KERNELS[kernel_name](q, k, v, **options)
        return output[0] if isinstance(output, tuple) else output

    return run
