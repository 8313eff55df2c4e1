"""Contents of tensors in a call from Python, and of tensors that have sizes only."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import ioaware
from ioaware.errors import UsageError


@triton.jit
def segments_kernel(offsets, x, out):
    segment = tl.program_id(0)
    for row in range(tl.load(offsets + segment), tl.load(offsets + segment + 1)):
        tl.store(out + row, tl.load(x + row))


def segments(offsets: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    segments_kernel[(offsets.shape[0] - 1,)](offsets, x, out)
    return out


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n), i < n)


def as_many_as_the_longest(lengths: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out, longest = torch.empty_like(x), int((lengths + 0).max())
    copy_kernel[(triton.cdiv(longest, 64),)](x, out, longest, BLOCK=64)
    return out


def twice_if_large(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for _ in range(2 if x.sum() > 10 else 1):
        copy_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


@triton.jit
def add_one_kernel(x):
    tl.store(x + tl.program_id(0), tl.load(x + tl.program_id(0)) + 1)


def segments_of_a_changed_view(offsets: torch.Tensor, same: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    add_one_kernel[(1,)](same)
    return segments(offsets, x)


OFFSETS = torch.tensor([0, 5, 5, 12, 40], dtype=torch.int32)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (segments, (OFFSETS, torch.ones(64))),
        (segments, (OFFSETS[1:], torch.ones(64))),
        (as_many_as_the_longest, (torch.tensor([100, 900, 300]), torch.ones(1000))),
        (twice_if_large, (torch.ones(100),)),
        (twice_if_large, (torch.zeros(100),)),
        (twice_if_large, (torch.ones(50).repeat_interleave(2)[::2],)),
    ],
)
def test_the_contents_of_arguments_count(function, arguments: tuple[torch.Tensor, ...]) -> None:
    """A derivation of a call has the index tensors of that call, and reads its data."""
    derived, traced = ioaware.derive(function, *arguments, check=True), ioaware.trace(function, *arguments)
    assert derived.exact
    assert derived.requested is not None
    assert traced.requested is not None
    assert derived.requested.read_bytes == traced.requested.read_bytes
    assert derived.requested.write_bytes == traced.requested.write_bytes


def test_integers_that_another_argument_may_change_are_unknown() -> None:
    offsets = OFFSETS.clone()
    derived = ioaware.derive(segments_of_a_changed_view, offsets, offsets[1:], torch.ones(64))
    assert not derived.exact


def test_other_sizes_read_zeros() -> None:
    """A formula that holds for the data of the call is refused elsewhere."""
    derived = ioaware.derive(twice_if_large, torch.ones(100))
    assert derived.evaluate()["read_bytes"] == 800
    with pytest.raises(UsageError):
        derived.evaluate(x_0=200)


@pytest.mark.parametrize(("function", "first"), [(segments, "offsets"), (as_many_as_the_longest, "lengths")])
def test_integers_that_were_not_given_are_not_exact(function, first: str) -> None:
    """Zeros stand for them, in a kernel as in host code, and a note says so."""
    given = {first: "i32[rows=5]", "x": "f32[n=64]"}
    derived, traced = ioaware.derive(function, **given), ioaware.trace(function, **given) if function is segments else None
    assert not derived.exact
    notes = [*derived.notes, *(note for launch in derived.launches for note in launch.notes)]
    assert any("zeros stand for them" in note for note in notes)
    if traced is not None:
        assert f"{first} was not given values: zeros stand for them" in traced.notes
