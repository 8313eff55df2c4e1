"""Stores that leave gaps within sectors get a note.

Counters merge or split such writes.
"""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
G = symbols("G")


@triton.jit
def rotated(x, out, STEP: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * STEP * B + STEP * tl.arange(0, B)
    value = tl.load(x + at)
    tl.store(out + at, value)
    tl.store(out + at + STEP // 2, -value)


@triton.jit
def spread(x, out, STEP: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * STEP * B + STEP * tl.arange(0, B)
    tl.store(out + at, tl.load(x + at))


def test_a_sector_with_one_element_is_split_by_no_counter() -> None:
    """One store, lanes 32 bytes apart: no instruction shares a sector with another."""
    derived = Launched(spread, [Tensor(64 * G), Tensor(64 * G)], [G], [], {"STEP": 8, "B": 16}).derive()
    assert derived.exact
    assert not [note for note in derived.notes if "written in part" in note]


@pytest.mark.parametrize(("step", "in_part"), [(1, False), (2, True), (4, True), (8, True)])
def test_a_gap_within_a_sector_gets_a_note(step: int, in_part: bool) -> None:
    derived = Launched(rotated, [Tensor(64 * G), Tensor(64 * G + 8)], [G], [], {"STEP": step, "B": 16}).derive()
    assert derived.exact
    notes = [note for note in derived.notes if "written in part" in note]
    assert bool(notes) == in_part
    assert all("tt.store" in note and f"lanes lie {4 * step} bytes apart" in note for note in notes)
