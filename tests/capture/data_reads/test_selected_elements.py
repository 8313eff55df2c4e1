# pyright: basic, reportArgumentType=false
"""Elements that a mask selects which a kernel computes: how many is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ioaware
from ioaware.errors import UsageError

BLOCK = 256


@triton.jit
def above_zero(x, mask, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(mask + at, tl.load(x + at, at < n) > 0, at < n)


@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 2, at < n)


def _double(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    doubled[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def _target(use: Callable[[torch.Tensor, torch.Tensor], object]) -> Callable[..., Any]:
    def target(n: int = 1000, device: str = "cuda") -> Callable[[], object]:
        x, mask = torch.randn(n, device=device), torch.empty(n, device=device, dtype=torch.bool)

        def work() -> object:
            above_zero[(triton.cdiv(n, BLOCK),)](x, mask, n, BLOCK=BLOCK)
            return use(x, mask)

        return work

    return target


selected = _target(lambda x, mask: x[mask].sum())
rows = _target(lambda x, mask: x.view(-1, 1).expand(-1, 3)[mask])
places = _target(lambda x, mask: (mask.nonzero(), torch.masked_select(x, mask)))
beside = _target(lambda x, mask: (x[mask], _double(x)))
launched = _target(lambda x, mask: _double(x[mask]))
none_left = _target(lambda x, mask: _double(x) if mask.nonzero().numel() == 0 else x)
just_two = _target(lambda x, mask: _double(x) if mask.nonzero().shape[0] == 2 else x)
different = _target(lambda x, mask: x[mask].unique())


@pytest.mark.parametrize(("target", "launches"), [(selected, 1), (rows, 1), (places, 1), (beside, 2)])
def test_launches_that_do_not_depend_on_the_number_are_derived(target: Callable[..., Any], launches: int) -> None:
    derived, traced = ioaware.derive(target, check=True), ioaware.trace(target)
    triton_launches = [launch for launch in derived.launches if launch.origin == "triton"]
    assert (derived.exact, len(triton_launches)) == (True, launches)
    assert derived.requested is not None
    assert traced.requested is not None
    assert derived.requested.read_bytes == traced.requested.read_bytes
    assert derived.requested.write_bytes == traced.requested.write_bytes
    assert any("a kernel decides how many elements are selected at test_selected" in note for note in derived.notes)


@pytest.mark.parametrize("target", [launched, none_left, just_two, different])
def test_launches_that_may_depend_on_it_are_refused(target: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match=r"reads what a kernel computed at test_selected_elements\.py"):
        ioaware.derive(target)
