"""Costs of a source line: bytes, sectors, overfetch and heat.

The order of hot lines is tested too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from sympy import Integer, Symbol

from ioaware.analysis.ir import Access, Count
from ioaware.derivation.line_costs import hot_lines, line_cost
from ioaware.derivation.line_report import Explanation, Line, Section

N = Symbol("n", integer=True, positive=True)


def access(elements: object, sectors: object | None, line: int = 5, kind: str = "read") -> Access:
    count = None if sectors is None else Count(sectors)  # pyright: ignore[reportArgumentType]
    return Access(kind, "tt.load", "x", Count(elements), 4, Count(Integer(7)), count, (f"k.py:{line}",))  # pyright: ignore[reportArgumentType]


def kernel(*lines: Line) -> Explanation:
    whole = sum((one.bytes for one in lines), Count(Integer(0)))
    return Explanation("k", (Section("k", "k.py", lines),), whole)


def test_a_stride_of_a_sector_fetches_eight_bytes_for_each_used() -> None:
    strided = Line(5, "x", (access(N, N),))
    cost = line_cost(strided, kernel(strided), {"n": 100})
    assert (cost.bytes, cost.sector_bytes, cost.overfetch, cost.runs, cost.share) == (400, 3200, 8.0, 7, 1.0)
    assert cost.heat == 10


def test_a_line_that_moves_nothing_is_cold() -> None:
    empty, full = Line(4, "y"), Line(5, "x", (access(N, N),))
    cost = line_cost(empty, kernel(empty, full), {"n": 100})
    assert (cost.bytes, cost.heat, cost.overfetch, cost.sector_bytes) == (0, 0, None, None)


def test_data_dependent_bytes_are_unknown_and_not_zero() -> None:
    open_ = Line(5, "x", (access(Symbol("count@k.py:5", integer=True), None),))
    cost = line_cost(open_, kernel(open_), {"n": 100})
    assert (cost.bytes, cost.sector_bytes, cost.share, cost.overfetch) == (None, None, None, None)


def test_atomics_have_no_sectors_and_so_no_overfetch() -> None:
    atomic = Line(5, "x", (access(N, None, kind="atomic"),))
    cost = line_cost(atomic, kernel(atomic), {"n": 100})
    assert (cost.bytes, cost.sector_bytes, cost.overfetch) == (400, None, None)


@pytest.mark.parametrize(("part", "heat"), [(1, 1), (10, 1), (11, 2), (99, 10), (100, 10)])
def test_heat_is_the_share_in_tenths_rounded_up(part: int, heat: int) -> None:
    lines = [Line(5, "x", (access(Integer(part), None),)), Line(6, "y", (access(Integer(100 - part), None, 6),))]
    assert line_cost(lines[0], kernel(*lines), {}).heat == heat


def test_hot_lines_are_in_order_of_bytes_and_leave_out_calls() -> None:
    own, other = access(N, None, 5), access(2 * N, None, 6)
    call = Line(9, "helper(x)", (own,))  # its instruction is on line 5
    found = hot_lines([kernel(Line(5, "a", (own,)), Line(6, "b", (other,)), call)], {"n": 3})
    assert [cost.line.number for _, _, cost in found] == [6, 5]


def test_a_line_of_unknown_bytes_comes_first() -> None:
    open_ = access(Symbol("count@k.py:5", integer=True), None, 5)
    found = hot_lines([kernel(Line(5, "a", (open_,)), Line(6, "b", (access(N, None, 6),)))], {"n": 3})
    assert [cost.line.number for _, _, cost in found] == [5, 6]


def test_the_share_of_a_hot_line_is_of_the_work() -> None:
    small, large = kernel(Line(5, "a", (access(N, None, 5),))), kernel(Line(6, "b", (access(N, None, 6),)))
    found = hot_lines([small, replace(large, launches=3)], {"n": 3})
    assert [(cost.line.number, cost.share) for _, _, cost in found] == [(6, 0.75), (5, 0.25)]
    assert [cost.bar.strip() for _, _, cost in found] == ["\u2588" * 4, "\u2588\u258c"]
