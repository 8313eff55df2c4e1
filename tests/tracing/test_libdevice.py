"""Kernels that call libdevice run in the interpreter.

So do kernels that use a module's constexpr.
"""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import rsqrt

from ioaware.errors import UsageError
from ioaware.tracing.interpreter import interpret_kernels

HALF = tl.constexpr(0.5)


@triton.jit
def mathematics(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(y + at, rsqrt(value) + HALF * libdevice.fma(value, value, 1.0) + libdevice.fast_dividef(value, 2.0))


@triton.jit
def predicates(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, libdevice.isnan(tl.load(x + at)))


@triton.jit
def unknown(x):
    tl.store(x, libdevice.sinpi(tl.load(x)))


def test_functions_have_the_values_of_torch() -> None:
    x = torch.tensor([1.0, 2.0, 4.0, 9.0])
    y = torch.empty_like(x)
    with interpret_kernels():
        mathematics[(1,)](x, y, 4)
    expected = [value**-0.5 + 0.5 * (value * value + 1) + value / 2 for value in (1.0, 2.0, 4.0, 9.0)]
    assert torch.allclose(y, torch.tensor(expected))


def test_predicates_give_integers() -> None:
    y = torch.empty(2, dtype=torch.int32)
    with interpret_kernels():
        predicates[(1,)](torch.tensor([1.0, math.nan]), y, 2)
    assert y.tolist() == [0, 1]


def test_an_unsupported_function_is_named() -> None:
    with interpret_kernels(), pytest.raises(UsageError, match=r"libdevice\.sinpi"):
        unknown[(1,)](torch.ones(1))
