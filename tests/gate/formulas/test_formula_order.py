"""Formulas compared over sizes: SAME only with a proof, and other growth is found."""

from __future__ import annotations

import pytest

from ioaware.gate.formulas.formula_names import admission, symbols
from ioaware.gate.formulas.formula_order import compare, proven_at_most, value_at
from ioaware.gate.formulas.formula_reader import read_formula
from ioaware.gate.verdict import Verdict, worst

NAMES = symbols(("n", "m"))
POINTS = [{"n": 4096, "m": 2048}, {"n": 1000, "m": 31}]


def verdict(old: str, new: str) -> Verdict:
    return compare(read_formula(old, NAMES), read_formula(new, NAMES), POINTS).verdict


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("2*n*(m + 1)", "2*m*n + 2*n", Verdict.SAME),
        ("4*cdiv(n, 128)", "4*((n + 127)//128)", Verdict.SAME),
        ("min(n, m) + max(n, m)", "n + m", Verdict.SAME),
        ("sum(min(i, m) for i in range(n))", "sum(min(m, i) for i in range(n))", Verdict.SAME),
        ("8*n", "12*n", Verdict.WORSE),
        ("8*n", "8*n + 4", Verdict.WORSE),
        ("4*ceil(n/128)", "4*ceil((n + 1)/128)", Verdict.WORSE),
        ("12*n", "8*n", Verdict.BETTER),
        ("128*ceil(n/128)", "n", Verdict.BETTER),
        ("n*m", "n*m + max(0, n - 4096)", Verdict.GROWTH),  # the same bytes at both points
        ("4096*n", "n*n", Verdict.GROWTH),  # fewer bytes at one point
        ("n//2 + (n + 1)//2", "n", Verdict.INCOMPARABLE),  # equal, but not proven
    ],
)
def test_verdicts(old: str, new: str, expected: Verdict) -> None:
    assert verdict(old, new) is expected


def test_swapping_the_sides_turns_worse_into_better() -> None:
    assert verdict("12*n + m", "8*n + m") is Verdict.BETTER
    assert verdict("8*n + m", "12*n + m") is Verdict.WORSE


def test_other_growth_has_a_witness() -> None:
    found = compare(read_formula("4096*n", NAMES), read_formula("n*n", NAMES), POINTS[:1])
    assert found.witness is not None
    point, before, after = found.witness
    assert before == 4096 * point["n"] < after == point["n"] ** 2
    assert "the same bytes here, another growth" in found.reason


def test_sizes_at_which_a_formula_does_not_hold_are_not_tried() -> None:
    """Under n <= 4096 the two formulas never differ.

    Neither growth nor equality is reported.
    """
    old, new = read_formula("n*m", NAMES), read_formula("n*m + max(0, n - 4096)", NAMES)
    assert compare(old, new, POINTS, admission(["n <= 4096"], NAMES)).verdict is Verdict.INCOMPARABLE
    assert compare(old, new, POINTS, admission(["n <= 4097"], NAMES)).verdict is Verdict.GROWTH


def test_a_condition_that_cannot_be_read_admits_nothing() -> None:
    assert not admission(["m == next_power_of_2(n)"], NAMES)({"n": 4, "m": 4})
    assert admission(["n % 4 == 0", "m != 3"], NAMES)({"n": 4, "m": 4})
    assert not admission(["n % 4 == 0", "m != 3"], NAMES)({"n": 4, "m": 3})


def test_proofs_from_a_size_on() -> None:
    low, high = read_formula("9*n", NAMES), read_formula("10*n - 100", NAMES)
    assert not proven_at_most(low, high)
    assert proven_at_most(low, high, {"n": 100})
    assert not proven_at_most(low, high, {"n": 99})


def test_a_formula_without_a_value_is_incomparable() -> None:
    assert verdict("n", "n/7 + (m if n >= 10**16 else unknown)") is Verdict.INCOMPARABLE
    assert value_at(read_formula("n/3", NAMES), {"n": 4}) is None
    assert value_at(read_formula("n/3", NAMES), {"m": 4}) is None


def test_the_worst_of_several() -> None:
    assert worst([]) is Verdict.INCOMPARABLE
    assert worst([Verdict.SAME, Verdict.BETTER]) is Verdict.BETTER
    assert worst([Verdict.SAME, Verdict.UNSURE, Verdict.GROWTH, Verdict.INCOMPARABLE]) is Verdict.GROWTH
    assert [verdict.exit_code for verdict in Verdict] == [0, 0, 1, 1, 3, 3]
    assert [verdict.passes for verdict in Verdict] == [True, True, False, False, False, False]
