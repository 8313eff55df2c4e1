# pyright: basic, reportArgumentType=false, reportOperatorIssue=false
"""Folds of lengths that the target has give the bytes of a trace."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import ioaware

LENGTHS = ([1, 2, 3, 4, 5, 6, 7, 8], [2, 2, 2, 2, 3, 3, 3, 40])


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def last(a, b):
    return b


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def copies(x, lengths, out, B: tl.constexpr, HOW: tl.constexpr):
    at = tl.arange(0, B)
    own = tl.load(lengths + tl.program_id(0) * B + at)
    if HOW == "or":
        n = tl.reduce(own, 0, either)
    elif HOW == "xor":
        n = tl.xor_sum(own, 0)
    elif HOW == "wrapping product":
        n = tl.reduce(own * 65537, 0, times) & 63
    elif HOW == "argmax":
        n = tl.argmax(own, 0)
    elif HOW == "wrapping sum":
        n = (tl.sum(own + 1500000000, 0) > 0) * 50 + 3
    elif HOW == "last":
        n = tl.reduce(own, 0, last)
    elif HOW == "cumsum":
        n = tl.sum(tl.where(tl.cumsum(own, 0) < 11, own, 0), 0)
    else:
        n = tl.sum(tl.where(tl.cumsum(own, 0, reverse=True) < 45, own, 0), 0)
    lane = tl.arange(0, 64)
    value = tl.load(x + lane, mask=lane < n)
    tl.store(out + tl.program_id(0) * 64 + lane, value, mask=lane < n)


def target(how: str = "or", device: str = "cuda") -> torch.Tensor:
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=device)
    out = torch.zeros(2, 64, device=device)
    copies[(2,)](torch.zeros(64, device=device), lengths, out, B=8, HOW=how)
    return out


@pytest.mark.parametrize("how", ["or", "xor", "wrapping product", "argmax", "wrapping sum", "last", "cumsum", "reverse cumsum"])
def test_a_fold_of_lengths_gives_the_bytes_of_a_trace(how: str) -> None:
    derived, traced = ioaware.derive(target, how=how), ioaware.trace(target, how=how)
    assert derived.exact
    assert derived.requested is not None
    assert traced.requested is not None
    assert derived.requested.read_bytes == traced.requested.read_bytes
    assert derived.requested.write_bytes == traced.requested.write_bytes
    by_hand = {"or": 15 + 43, "last": 48, "argmax": 7 + 7, "cumsum": 10 + 8}
    if how in by_hand:
        assert derived.requested.write_bytes == 4 * by_hand[how]
