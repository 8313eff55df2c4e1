"""Bytes along a range of a parameter: parsing, points and values.

The values equal the formulas.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy
from sympy import Integer, Symbol

from ioaware.analysis.ir import Count
from ioaware.derivation.derived import Derived
from ioaware.derivation.launch_formulas import Formulas
from ioaware.errors import UsageError
from ioaware.report.pages.over import Span, curve, parse_span, spans_of

N, M = (Symbol(name, integer=True, positive=True) for name in "nm")
ZERO = Count(Integer(0))


def derived(reads: object = 4 * N * M + 8 * N, **symbols: int) -> Derived:
    formulas = Formulas(Count(reads), Count(2 * N), ZERO, ZERO, Count(sympy.ceiling(N / 8)), ZERO)  # pyright: ignore[reportArgumentType]
    return Derived("derive", "k.py:f", formulas=formulas, symbols=symbols or {"n": 64, "m": 3})


RANGES = {
    "n=1k..64k": Span("n", 1024, 65536),
    "seq_len = 3 .. 5M": Span("seq_len", 3, 5 * 2**20),
    "n=1Ki..2Gi": Span("n", 1024, 2**31),
    "größe=1..2k": Span("größe", 1, 2048),
}
NONE = ("n", "n=5", "n=5..5", "n=0..4", "n=9..4", "n=1..k", "n=1..99999999999999999999", "2n=1..4", "")


@pytest.mark.parametrize(("text", "span"), RANGES.items())
def test_a_range(text: str, span: Span) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize("text", NONE)
def test_no_range(text: str) -> None:
    with pytest.raises(UsageError, match="is no range"):
        parse_span(text)


def test_points_are_powers_of_two_their_midpoints_and_the_ends() -> None:
    assert Span("n", 3, 20).points([5, 99]) == [3, 4, 5, 6, 8, 12, 16, 20]


def test_a_curve_has_the_values_of_the_formula() -> None:
    found = curve(derived(), Span("n", 16, 64))
    assert [point.value for point in found.points] == [16, 24, 32, 48, 64]
    assert [point.requested_bytes for point in found.points] == [4 * n * 3 + 10 * n for n in (16, 24, 32, 48, 64)]
    assert [point.sector_bytes for point in found.points] == [2, 3, 4, 6, 8]
    assert [point.leading_bytes for point in found.points] == [12 * n for n in (16, 24, 32, 48, 64)]


def test_values_outside_the_conditions_are_left_out_with_a_reason() -> None:
    half = sympy.Piecewise((N, sympy.Eq(sympy.Mod(N, 16), 0)))
    found = curve(derived(half), Span("n", 16, 64))
    assert [point.value for point in found.points] == [16, 32, 48, 64]
    assert found.left_out == (24,)
    assert found.why


def test_without_a_range_each_symbol_of_the_formulas_gets_one() -> None:
    assert [str(span) for span in spans_of(derived(n=64, m=3, other=8), ())] == ["n=4..1024", "m=1..48"]


def test_specialised_parameters_have_ranges_where_no_symbol_has_one() -> None:
    fixed = replace(derived(Integer(4096), n=64), params={"block": 32, "causal": True, "n": 64})
    fixed = replace(fixed, formulas=Formulas(Count(Integer(4096)), ZERO, ZERO, ZERO, ZERO, ZERO))
    assert [str(span) for span in spans_of(fixed, ())] == ["block=2..512"]
    found = curve(fixed, Span("block", 16, 64))
    assert [point.value for point in found.points] == [32]
    assert found.left_out == (16, 64)  # no value half-way: each is another kernel
    assert "another kernel" in found.why


def test_a_range_of_no_symbol_is_refused() -> None:
    with pytest.raises(UsageError, match="no parameter k of integers"):
        spans_of(derived(), [Span("k", 1, 2)])
