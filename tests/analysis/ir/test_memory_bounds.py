"""Accesses outside their tensor get a note.

The note has the sizes for which they stay inside.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@triton.jit
def doubled(x, out, n, B: tl.constexpr, MASKED: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    if MASKED:
        tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
    else:
        tl.store(out + at, 2 * tl.load(x + at))


@triton.jit
def before_the_start(x, out, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at - 1))


@triton.jit
def rows_of_a_matrix(x, out, columns, B: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, columns, B):
        at = row * columns + start + tl.arange(0, B)
        tl.store(out + at, tl.load(x + at))


def unmasked(n: int = 1024, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n, device=device)
    out = torch.empty_like(x)
    doubled[(triton.cdiv(n, 256),)](x, out, n, B=256, MASKED=False)
    return out


def masked(n: int = 1000, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n, device=device)
    out = torch.empty_like(x)
    doubled[(triton.cdiv(n, 256),)](x, out, n, B=256, MASKED=True)
    return out


def in_the_middle(n: int = 1024, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n + 256, device=device)
    out = torch.empty(n + 512, device=device)
    doubled[(triton.cdiv(n, 256),)](x, out[7:], n, B=256, MASKED=False)
    return out


def early(n: int = 1024, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n, device=device)
    out = torch.empty_like(x)
    before_the_start[(n // 64,)](x, out, B=64)
    return out


def matrix(rows: int = 8, columns: int = 96, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(rows, columns, device=device)
    out = torch.empty_like(x)
    rows_of_a_matrix[(rows,)](x, out, columns, B=64)
    return out


def beyond(host: object) -> list[str]:
    launches = derive(load_target(host), {}, machine_code=False).launches  # type: ignore[arg-type]
    (launch,) = (launch for launch in launches if launch.origin == "triton")
    assert launch.exact
    return [note for note in launch.notes if "beyond" in note]


def test_a_forgotten_mask_holds_for_multiples_of_the_block() -> None:
    assert len(beyond(unmasked)) == 2
    for note, tensor in zip(sorted(beyond(unmasked)), ("x", "out"), strict=True):
        assert note.endswith(f"reaches beyond {tensor} unless n % 256 == 0")
        assert "test_memory_bounds.py:" in note


def test_a_mask_or_space_after_the_view_needs_no_note() -> None:
    assert not beyond(masked)
    assert not beyond(in_the_middle)


def test_elements_before_a_tensor_are_outside_too() -> None:
    (note,) = beyond(early)
    assert "reaches beyond x at every size" in note


def test_the_last_row_reaches_past_its_end() -> None:
    notes = beyond(matrix)
    assert len(notes) == 2
    assert all("unless" in note for note in notes)
