"""Formulas, facts for budgets and admitted sizes that the gate takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import sympy

from ioaware.analysis.ir import Count
from ioaware.gate import constant_sizes
from ioaware.gate.constant_sizes import bytes_at, compared_elsewhere, other_point
from ioaware.gate.derived_work import admission_of, conditions_of, formulas_of, operator_formulas_of, work_of
from ioaware.gate.formulas.formula_order import Comparison
from ioaware.gate.kernel_facts import sector_bytes_at
from ioaware.gate.verdict import Verdict
from ioaware.result import Launch, Traffic

N = sympy.Symbol("n", integer=True, positive=True)
POINT = {"n": 3}


def count(expr: Any) -> Any:
    return SimpleNamespace(expr=sympy.sympify(expr))


def derived(**more: Any) -> Any:
    """Return a derivation whose kernels and operators move multiples of n bytes."""
    totals = SimpleNamespace(read_bytes=count(8 * N), write_bytes=count(4 * N), atomic_bytes=count(2 * N))
    given: dict[str, Any] = {
        "formulas": totals, "assumed_formulas": SimpleNamespace(read_bytes=count(6 * N), write_bytes=count(5 * N)),
        "requested": Traffic(80, 40, 20), "assumed": Traffic(60, 50), "exact": True, "exact_here_only": False,
        "params": {"n": 10}, "values": {"n": 10}, "symbols": {"n": 10}, "validity": None, "kernels": (),
        "compulsory": Traffic(7, 2),
        "launches": [
            Launch("a", tma_loads=2, local_bytes=16), Launch("b", tma_loads=3, local_bytes=8), Launch("t", origin="torch"),
        ],
    }  # fmt: skip
    return SimpleNamespace(**(given | more))


def test_formulas_have_the_names_of_the_gate() -> None:
    assert formulas_of(derived()) == {"reads": 8 * N, "writes": 4 * N, "atomics": 2 * N}
    assert formulas_of(derived(formulas=None)) == {}
    assert operator_formulas_of(derived()) == {"torch_reads": 6 * N, "torch_writes": 5 * N}
    assert operator_formulas_of(derived(assumed=None)) == operator_formulas_of(derived(assumed_formulas=None)) == {}


def test_bytes_that_are_exact_for_their_data_are_numbers() -> None:
    here = derived(exact_here_only=True)
    assert formulas_of(here) == {"reads": 80, "writes": 40, "atomics": 20}
    assert operator_formulas_of(here) == {"torch_reads": 60, "torch_writes": 50}
    unknown = derived(exact_here_only=True, assumed=Traffic(None, 50))
    assert operator_formulas_of(unknown) == {"torch_reads": None, "torch_writes": 50}


def test_budgets_judge_kernels_and_operators() -> None:
    work = work_of(derived())
    assert work.formulas == formulas_of(derived()) | operator_formulas_of(derived())
    assert (work.compulsory, work.spills, work.tma_loads, work.point) == (9, 16, 5, {"n": 10})
    assert [work_of(derived(exact=exact)).exact for exact in (True, False)] == [True, False]
    bare = work_of(derived(compulsory=None, launches=[Launch("a"), Launch("b", tma_loads=1, local_bytes=1)]))
    assert (bare.compulsory, bare.spills, bare.tma_loads) == (None, None, None)


def test_conditions_and_limits_must_both_hold() -> None:
    def kernel(*, broken: bool) -> Any:
        value = SimpleNamespace(symbols={"n"})
        return SimpleNamespace(limits=[SimpleNamespace(value=value, broken=lambda _: broken)])

    def admits(*, met: bool, broken: bool, **more: Any) -> bool:
        conditions = (SimpleNamespace(met=lambda _: met),)
        one = derived(validity=SimpleNamespace(conditions=conditions), kernels=(kernel(broken=broken),), **more)
        return admission_of(one)(POINT)

    assert admits(met=True, broken=False)
    assert not admits(met=False, broken=False)
    assert not admits(met=True, broken=True)
    assert not admits(met=True, broken=False, exact_here_only=True)  # other sizes have other data
    assert admission_of(derived(exact_here_only=True))({"n": 10})


def test_bytes_of_each_kind_at_a_point() -> None:
    found = bytes_at(lambda _: derived(), POINT)
    assert found == {"reads": 24, "writes": 12, "atomics": 6, "torch_reads": 18, "torch_writes": 15}


def test_the_other_point_has_each_kind_and_no_more(monkeypatch: Any) -> None:
    """A kind that the snapshot lacks may be there only without bytes."""
    fixed = derived(symbols={})
    moved: dict[str, Any] = {"reads": 8, "atomics": 0}
    monkeypatch.setattr(constant_sizes, "bytes_at", lambda *_: moved)
    assert other_point(fixed, lambda _: fixed, ["reads", "writes"]) == ({"n": 22}, (8, 0))
    moved["atomics"] = 4
    assert other_point(fixed, lambda _: fixed, ["reads", "writes"]) is None
    assert other_point(fixed, lambda _: fixed, ["reads", "atomics"]) == ({"n": 22}, (8, 4))
    moved["reads"] = None
    assert other_point(fixed, lambda _: fixed, ["reads", "atomics"]) is None


def test_sectors_at_a_point() -> None:
    """Unknown where reads or writes are, and where other sizes have other data."""

    def sectors(read: Any, written: Any, **more: Any) -> int | None:
        return sector_bytes_at(
            derived(formulas=SimpleNamespace(read_sector_bytes=read, write_sector_bytes=written), **more), POINT
        )

    of_reads, of_writes = Count(64 * N), Count(32 * N)
    assert sectors(of_reads, of_writes) == 288
    assert sectors(None, of_writes) is sectors(of_reads, None) is sectors(of_reads, of_writes, exact_here_only=True) is None
    assert sector_bytes_at(derived(formulas=None), POINT) is None


def test_conditions_are_of_sizes_and_of_what_host_code_does() -> None:
    notes = [
        "n is text at a.py:3: other values are checked by running",
        "compulsory: each",
        "no tensor is printed: torch copies",
    ]
    validity = SimpleNamespace(conditions=(N < 9,))
    assert conditions_of(derived(notes=notes, validity=validity)) == (
        "n < 9", "no tensor is printed", "the text of n decides nothing",
    )  # fmt: skip
    assert conditions_of(derived(notes=[])) == ()


def test_an_unknown_number_at_another_constant_is_told() -> None:
    found = compared_elsewhere(Comparison(Verdict.SAME, "equal"), POINT, 8, None)
    assert found.reason == "unknown at n=3, where a constant of the kernel is another"


def test_growth_at_another_constant_is_told_with_both_values() -> None:
    here = Comparison(Verdict.SAME, "equal", ((POINT, 1, 1),))
    reason = "+2 at n=3, where a constant of the kernel is another"
    assert compared_elsewhere(here, POINT, 8, 10) == Comparison(Verdict.GROWTH, reason, ((POINT, 1, 1),), (POINT, 8, 10))
