"""Curves of kernels that are compiled anew for other sizes."""

from __future__ import annotations

from dataclasses import replace

import sympy
from sympy import Integer, Symbol

from ioaware.analysis.ir import Count
from ioaware.derivation.derived import Derived
from ioaware.derivation.launch_formulas import Formulas
from ioaware.errors import UsageError
from ioaware.report.pages.over import Span, curve
from ioaware.report.pages.over_pieces import with_pieces

N = Symbol("n", integer=True, positive=True)
ZERO = Count(Integer(0))
SPAN = Span("n", 16, 256)


def derived(at: int) -> Derived:
    """Return a derivation that holds for (power / 2, power] and reads `power` bytes."""
    power = 1 << (at - 1).bit_length()
    reads = sympy.Piecewise((Integer(power), (power // 2 < N) & (power >= N)))
    return Derived("derive", "k.py:f", formulas=Formulas(Count(reads), Count(N), ZERO, ZERO, ZERO, ZERO), symbols={"n": at})


def test_values_left_out_are_derived_once_for_each_kernel() -> None:
    asked: list[int] = []

    def derive_at(value: int) -> Derived:
        asked.append(value)
        return derived(value)

    alone = curve(derived(64), SPAN)
    assert [point.value for point in alone.points] == [48, 64]
    found = with_pieces(alone, 64, derive_at, lambda _: None, 60)
    assert asked == [32, 16, 96, 192]
    assert found.left_out == ()
    assert found.pieces == 5
    assert [(point.value, point.requested_bytes) for point in found.points] == [
        (16, 32), (24, 56), (32, 64), (48, 112), (64, 128), (96, 224), (128, 256), (192, 448), (256, 512),
    ]  # fmt: skip


def test_a_side_ends_where_no_derivation_holds() -> None:
    def derive_at(value: int) -> Derived:
        if value > 100:
            raise UsageError("too large")
        return replace(derived(64), symbols={"n": value}) if value < 20 else derived(value)

    found = with_pieces(curve(derived(64), SPAN), 64, derive_at, lambda _: None, 60)
    assert [point.value for point in found.points] == [24, 32, 48, 64, 96, 128]
    assert found.left_out == (16, 192, 256)


def test_without_time_the_reason_is_said() -> None:
    alone = curve(derived(64), SPAN)
    found = with_pieces(alone, 64, derived, lambda _: None, 0)
    assert found == replace(alone, why="to derive it there takes too long, 0 s are allowed")
