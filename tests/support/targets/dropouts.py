"""Dropout kernels whose seeds are drawn in each call.

Beside them are kernels that a drawn number decides.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x, y, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > p
    tl.store(y + at, tl.where(kept, tl.load(x + at, mask=at < n) / (1 - p), 0.0), mask=at < n)


@triton.jit
def first_kernel(x, y, n, first, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < first), mask=at < n)


@triton.jit
def twice_if_wide_kernel(x, y, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if seed.dtype == tl.int64:
        tl.store(y + at, tl.rand(seed, at), mask=at < n)
    tl.store(y + at, tl.load(x + at, mask=at < n) * tl.rand(seed, at), mask=at < n)


def _dropped(n: Any, seed: Any) -> Any:
    x = torch.empty(n, device="cuda")
    y = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(n, 256),)](x, y, n, 0.5, seed, BLOCK=256)
    return y


def _first(n: Any, first: Any) -> Any:
    x = torch.empty(n, device="cuda")
    y = torch.empty_like(x)
    first_kernel[(triton.cdiv(n, 256),)](x, y, n, first, BLOCK=256)
    return y


def _of_two_widths() -> int:
    return random.randint(2**31 - 2**30, 2**31 + 2**30)


SEEDS = {
    "torch.randint": lambda: torch.randint(0, 2**31, (1,)).item(),
    "after other numbers": lambda: torch.rand(3) is None or torch.randint(0, 2**31, (1,)).tolist()[0],
    "torch.seed": lambda: torch.random.seed(),
    "torch.initial_seed": lambda: torch.initial_seed(),
    "torch.cuda.initial_seed": lambda: torch.cuda.initial_seed(),
    "default_generator": lambda: torch.default_generator.initial_seed(),
    "state of the GPU's generator": lambda: torch.cuda.default_generators[0].get_state().view(torch.int64)[0].item(),
    "Generator.seed": lambda: torch.Generator(device="cuda").seed(),
    "random": lambda: random.randint(0, 2**31 - 1),
    "of two widths": _of_two_widths,
    "numpy": lambda: np.random.randint(0, 2**31),
    "default_rng": lambda: int(np.random.default_rng().integers(0, 2**40)),
}


def dropout(n: int = 1000, seed: str = "random") -> Any:
    return _dropped(n, SEEDS[seed]())


def first(n: int = 1000, seed: str = "random") -> Any:
    return _first(n, SEEDS[seed]() % 1000)


def seeded_first(n: int = 1000) -> Any:
    torch.manual_seed(42)
    torch.cuda.manual_seed(7)
    return _first(n, torch.initial_seed() + torch.cuda.initial_seed() + torch.default_generator.initial_seed())


def dropout_of_a_random_half(n: int = 1000) -> Any:
    return _dropped(n if random.random() < 0.5 else n // 2, 3)


def twice_if_wide(n: int = 1000) -> Any:
    x = torch.empty(n, device="cuda")
    y = torch.empty_like(x)
    twice_if_wide_kernel[(triton.cdiv(n, 256),)](x, y, n, _of_two_widths(), BLOCK=256)
    return y
