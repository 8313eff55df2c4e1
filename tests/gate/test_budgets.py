"""Budgets as numbers and as formulas. An unknown value is never within one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate.budgets import EXAMPLE, Work, check_budgets, judge
from ioaware.gate.formulas.formula_names import symbols
from ioaware.gate.formulas.formula_reader import read_formula
from ioaware.gate.verdict import Verdict

NAMES = symbols(("n", "m"))
ADD = Work(
    formulas={kind: read_formula(text, NAMES) for kind, text in (("reads", "8*n"), ("writes", "4*n"), ("atomics", "0"))},
    point={"n": 1000},
    admits=lambda _: True,
    exact=True,
    compulsory=12_000,
    spills=0,
    tma_loads=2,
)


def verdict(work: Work = ADD, **budgets: Any) -> Verdict:
    (judgement,) = judge(work, budgets)
    return judgement.verdict


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ({"max_bytes": "12*n"}, Verdict.SAME),
        ({"max_bytes": "12*n - 1"}, Verdict.WORSE),
        ({"max_bytes": 12_000}, Verdict.SAME),
        ({"max_bytes": "12000"}, Verdict.SAME),
        ({"max_bytes": 11_999}, Verdict.WORSE),
        ({"max_bytes": "11*n + 1000"}, Verdict.GROWTH),  # within it here, but not at larger sizes
        ({"max_bytes": "13*n - 1000"}, Verdict.SAME),  # from the given sizes on
        ({"max_reads": "8*n"}, Verdict.SAME),
        ({"max_reads": "7*n"}, Verdict.WORSE),
        ({"max_writes": "4*n"}, Verdict.SAME),
        ({"max_writes": "n"}, Verdict.WORSE),
        ({"vs_compulsory": 1}, Verdict.SAME),
        ({"vs_compulsory": 0.999}, Verdict.WORSE),
        ({"max_spills": 0}, Verdict.SAME),
        ({"min_tma_loads": 2}, Verdict.SAME),
        ({"min_tma_loads": 3}, Verdict.WORSE),
    ],
)
def test_verdicts(budgets: dict[str, Any], expected: Verdict) -> None:
    assert verdict(**budgets) is expected


def test_a_spill_is_over_the_budget() -> None:
    assert verdict(replace(ADD, spills=8), max_spills=0) is Verdict.WORSE


@pytest.mark.parametrize(
    ("change", "budgets"),
    [
        ({"exact": False}, {"max_bytes": 10**9}),
        ({"exact": False}, {"vs_compulsory": 100}),
        ({"compulsory": None}, {"vs_compulsory": 100}),
        ({"compulsory": 0}, {"vs_compulsory": 100}),
        ({"spills": None}, {"max_spills": 10**9}),
        ({"tma_loads": None}, {"min_tma_loads": 0}),
        ({"point": {}}, {"max_bytes": 10**9}),
    ],
)
def test_unknown_values_are_not_within_a_budget(change: dict[str, Any], budgets: dict[str, Any]) -> None:
    assert verdict(replace(ADD, **change), **budgets) is Verdict.INCOMPARABLE


def test_unknown_compulsory_bytes_are_named() -> None:
    (judgement,) = judge(replace(ADD, compulsory=None), {"vs_compulsory": 100})
    assert judgement.reason == "the compulsory bytes are not known"


def test_an_unproven_limit_is_unsure() -> None:
    """Equal at every size, but the algebra does not prove it."""
    halves = replace(ADD, formulas={**ADD.formulas, "reads": read_formula("n//2 + (n + 1)//2", NAMES)})
    assert verdict(halves, max_reads="n") is Verdict.UNSURE


BAD = [float("nan"), float("inf"), float("-inf"), None, -1, True, "", "q", [], 1.5]


@pytest.mark.parametrize("name", ["max_bytes", "max_reads", "max_writes", "max_spills", "min_tma_loads", "vs_compulsory"])
@pytest.mark.parametrize("limit", BAD, ids=repr)
def test_a_limit_of_the_wrong_type_is_refused(name: str, limit: Any) -> None:
    if name == "vs_compulsory" and limit == 1.5:
        return
    with pytest.raises(UsageError):
        judge(ADD, {name: limit})


def test_a_budget_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError) as raised:
        check_budgets({"max_byte": 3})
    every = "max_bytes, max_reads, max_writes, max_torch_bytes, vs_compulsory, max_spills, min_tma_loads"
    assert (raised.value.what, raised.value.remedy) == ("there is no budget 'max_byte'", f"Budgets: {every}. {EXAMPLE}")


@pytest.mark.parametrize(
    ("name", "limit", "wanted"),
    [
        ("max_bytes", -1, "a formula or a whole number"),
        ("max_reads", 1.5, "a formula or a whole number"),
        ("max_spills", "n", "a whole number"),
        ("min_tma_loads", -1, "a whole number"),
        ("vs_compulsory", "n", "a positive number"),
    ],
)
def test_what_a_limit_must_be_is_said(name: str, limit: Any, wanted: str) -> None:
    """Bytes may have a formula. Counts have none."""
    with pytest.raises(UsageError) as raised:
        check_budgets({name: limit})
    assert (raised.value.what, raised.value.remedy) == (f"{name} is {wanted}, not {limit!r}", EXAMPLE)


def test_a_formula_without_a_value_says_so() -> None:
    (found,) = judge(replace(ADD, point={}), {"max_bytes": 100})
    assert (found.verdict, found.reason) == (Verdict.INCOMPARABLE, "a formula has no value at the given sizes")


def test_sizes_below_the_given_ones_do_not_count() -> None:
    """The limit holds at n = 1000, and is n - 1 below it."""
    halves = replace(ADD, formulas={**ADD.formulas, "reads": read_formula("n//2 + (n + 1)//2", NAMES)})
    (found,) = judge(halves, {"max_reads": "n - 1 + min(1, n//1000)"})
    reason = "1,000 B, the limit is 1,000 B at n=1000; not proven at larger sizes"
    assert (found.verdict, found.reason) == (Verdict.UNSURE, reason)
    (none,) = judge(replace(ADD, formulas=dict.fromkeys(ADD.formulas)), {"max_bytes": 1})
    assert (none.verdict, none.reason) == (Verdict.INCOMPARABLE, "the bytes are not known")
