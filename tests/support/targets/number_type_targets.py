"""Host functions of a module that needs `int`, and `float` in a kernel."""

from __future__ import annotations

import dataclasses
import functools
import numbers

import torch
import triton
import triton.language as tl


@triton.jit
def clamp_kernel(x, y, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    largest = tl.maximum(tl.load(x + lanes, lanes < n, other=float("-inf")), 0.0)
    tl.store(y + lanes, largest, lanes < n)


def of_integers(n: int = 1000, device: str = "cuda"):
    """A size that `int` specialises here."""
    x = torch.zeros(int(n), dtype=int, device=device)
    y = torch.empty_like(x, dtype=torch.float32)
    clamp_kernel[(triton.cdiv(n, 128),)](x.to(float), y, n, BLOCK=128)
    return y


@dataclasses.dataclass(order=True)
class Length:
    size: int

    def __post_init__(self):
        if not isinstance(self.size, int):
            self.size = 5


@functools.singledispatch
def lengthened(_: object):
    return 5


@lengthened.register
def _(size: int):
    return size + 1


def clamped(size: int):
    x = torch.zeros(size, device="cuda")
    clamp_kernel[(triton.cdiv(size, 128),)](x, torch.empty_like(x), size, BLOCK=128)


def branch_on_a_checked_size(n: int = 1000):
    """A branch that is not taken at another size, behind a check of the type."""
    clamped(10 if Length(n) < Length(1500) else 20)


def by_dispatch(n: int = 1000):
    clamped(lengthened(n))


def by_pattern(n: int = 1000):
    match n:
        case int():
            clamped(n)
        case _:
            clamped(5)


def by_abstract_type(n: int = 1000):
    clamped(n if isinstance(n, numbers.Integral) and n.__class__ is int and type(n > 3) is bool else 5)


def by_an_attribute(n: int = 1000):
    """Symbols have no `numerator`."""
    try:
        clamped(10 if n.numerator < 1500 else 20)
    except AttributeError:
        clamped(10)
