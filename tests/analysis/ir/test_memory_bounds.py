# pyright: basic, reportArgumentType=false
"""Accesses outside their tensor get a note.

The note has the sizes for which they stay inside.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.derivation.line_report import explain
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


@triton.jit
def tile_of_a_head(x, out, n, heads, B: tl.constexpr, MASKED: tl.constexpr):
    tiles = tl.cdiv(n, B)
    pid = tl.program_id(0)
    head = pid // tiles % heads
    batch = pid // (tiles * heads)
    at = pid % tiles * B + tl.arange(0, B)
    row = (batch * heads + head) * n
    if MASKED:
        tl.store(out + row + at, tl.load(x + row + at, mask=at < n), mask=at < n)
    else:
        tl.store(out + row + at, tl.load(x + row + at))


@triton.jit
def too_wide(x, out, n, B: tl.constexpr, MORE: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n + MORE), mask=at < n)


@triton.jit
def masked_tile(x, out, rows, columns, stride, MORE: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    for start in range(0, columns, B):
        column = start + tl.arange(0, B)
        at = row[:, None] * stride + column[None, :]
        inside = (row[:, None] < rows) & (column[None, :] < columns + MORE)
        tl.store(out + at, tl.load(x + at, mask=inside), mask=inside & (column[None, :] < columns))


@triton.jit
def and_one_more(x, out, n, AT: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = ((at < n) and at != 3) or (at == AT)
    tl.store(out + at, tl.load(x + at, mask), mask)


@triton.jit
def and_another(x, out, n, m, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = (at < n) | (at == m)
    tl.store(out + at, tl.load(x + at, mask), mask)


@triton.jit
def gathered(x, index, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    rows = tl.load(index + at, at < n, other=0)
    tl.store(out + at, tl.load(x + rows, at < n), at < n)


def one_more(n: int = 100, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n, device=device)
    out = torch.empty_like(x)
    and_one_more[(triton.cdiv(n, 32),)](x, out, n, AT=4, B=32)
    return out


def another(n: int = 100, m: int = 110, more: int = 0, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n + more, device=device)
    out = torch.empty_like(x)
    and_another[(triton.cdiv(n, 32),)](x, out, n, m, B=32)
    return out


def another_within(n: int = 100, m: int = 110, device: str = "cuda") -> torch.Tensor:
    return another(n, m, m + 1, device)


def rows_of_a_table(n: int = 100, rows: int = 90, device: str = "cuda") -> torch.Tensor:
    x, index = torch.zeros(rows, device=device), torch.arange(n, dtype=torch.int32, device=device)
    out = torch.empty(n, device=device)
    gathered[(triton.cdiv(n, 32),)](x, index, out, n, B=32)
    return out


def enough_rows(n: int = 100, device: str = "cuda") -> torch.Tensor:
    return rows_of_a_table(n, n, device)


def too_far(n: int = 1024, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n, device=device)
    out = torch.empty_like(x)
    too_wide[(triton.cdiv(n, 256),)](x, out, n, B=256, MORE=3)
    return out


def exactly_far(n: int = 1024, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n + 3, device=device)
    out = torch.empty_like(x)
    too_wide[(triton.cdiv(n, 256),)](x, out, n, B=256, MORE=3)
    return out


def tile(rows: int = 40, columns: int = 48, more: int = 0, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(rows, columns, device=device)
    out = torch.empty_like(x)
    masked_tile[(triton.cdiv(rows, 16),)](x, out, rows, columns, x.stride(0), MORE=more, B=16)
    return out


def wide_tile(rows: int = 40, columns: int = 48, device: str = "cuda") -> torch.Tensor:
    return tile(rows, columns, 1, device)


def unmasked(n: int = 1024, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(n, device=device)
    out = torch.empty_like(x)
    doubled[(triton.cdiv(n, 256),)](x, out, n, B=256, MASKED=False)
    return out


def decoded(batch: int = 3, heads: int = 2, n: int = 1024, masked: bool = False, device: str = "cuda") -> torch.Tensor:
    x = torch.zeros(batch, heads, n, device=device)
    out = torch.empty_like(x)
    tile_of_a_head[(batch * heads * triton.cdiv(n, 256),)](x, out, n, heads, B=256, MASKED=masked)
    return out


def decoded_masked(batch: int = 3, heads: int = 2, n: int = 1000, device: str = "cuda") -> torch.Tensor:
    return decoded(batch, heads, n, True, device)


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


def test_a_forgotten_mask_of_a_decoded_program_id() -> None:
    for note, tensor in zip(sorted(beyond(decoded)), ("x", "out"), strict=True):
        assert note.endswith(f"reaches beyond {tensor} unless n % 256 == 0")
    assert not beyond(decoded_masked)


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


def test_a_mask_that_is_too_wide_holds_for_multiples_of_the_block() -> None:
    (note,) = beyond(too_far)
    assert note.endswith("reaches beyond x unless n % 256 == 0")
    assert not beyond(exactly_far)


def test_the_last_row_of_a_tile_reaches_past_the_end() -> None:
    (note,) = beyond(wide_tile)
    assert note.endswith("reaches beyond x unless columns % 16 == 0")
    assert not beyond(tile)


def test_alternatives_of_a_mask_are_looked_at_one_by_one() -> None:
    for note in beyond(one_more):
        assert note.endswith("unless 20 <= 4*n bytes")
    assert len(beyond(one_more)) == 2


def test_an_alternative_that_may_make_no_lane_active() -> None:
    """No lane is at m where m is beyond the grid."""
    assert len(beyond(another)) == 2
    for note in beyond(another):
        assert note.endswith("unless n % 32 == 0 or 4*m + 4 <= 4*n bytes")
    assert not beyond(another_within)


def test_indices_of_the_target_past_the_end() -> None:
    (note,) = beyond(rows_of_a_table)
    assert "tt.load" in note
    assert note.endswith("reaches beyond its tensor with 10 elements at these sizes")
    assert not beyond(enough_rows)


def test_explain_marks_the_line() -> None:
    (kernel,) = explain(derive(load_target(too_far), {}, machine_code=False))
    marked = [(line.text.strip(), line.beyond) for section in kernel.sections for line in section.lines if line.beyond]
    assert [where for _, where in marked] == ["x unless n % 256 == 0"]
    assert "mask=at < n + MORE" in marked[0][0]
