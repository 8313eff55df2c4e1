"""Every configuration of autotuned kernels: which there are, and budgets of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sympy

from ioaware.fakegpu.autotuning import NoConfigurationError
from ioaware.gate.budgets import Work
from ioaware.gate.tuning import configurations
from ioaware.gate.tuning.configurations import combinations_of, configurations_of, judge_all
from ioaware.gate.verdict import Verdict
from ioaware.result import Traffic

TUNED = {
    "one": ({"BLOCK": 1, "num_warps": 4}, {"BLOCK": 2, "num_warps": 4}, {"BLOCK": 2, "num_warps": 8}),
    "two": ({"STEP": 1}, {"STEP": 2}, {"STEP": 3}),
    "same": ({"BLOCK": 1, "num_stages": 2}, {"BLOCK": 1, "num_stages": 3}),
}


def moving(read_bytes: int | None, *, exact: bool = True) -> Any:
    return SimpleNamespace(requested=Traffic(read_bytes, 0), exact=exact, configurations=TUNED)


def test_configurations_that_may_move_other_bytes() -> None:
    others = [{"one:BLOCK": 1}, {"one:BLOCK": 2}, {"two:STEP": 1}, {"two:STEP": 2}, {"two:STEP": 3}]
    assert configurations_of(moving(100)) == others


def test_chosen_values_leave_other_configurations_out() -> None:
    assert configurations_of(moving(100), {"BLOCK": 2, "STEP": 3}) == []
    assert configurations_of(moving(100), {"one:BLOCK": 2}) == [{"two:STEP": 1}, {"two:STEP": 2}, {"two:STEP": 3}]
    assert configurations_of(moving(100), {"two:BLOCK": 2})[:2] == [{"one:BLOCK": 1}, {"one:BLOCK": 2}]


def test_compile_options_are_choices_where_spills_are_held() -> None:
    assert {"same:BLOCK": 1, "same:num_stages": 3} in configurations_of(moving(100), options=True)


def test_several_kernels_are_combined() -> None:
    found = list(combinations_of(moving(100), {}))
    assert len(found) == 6
    assert {"one:BLOCK": 2, "two:STEP": 3} in found
    assert list(combinations_of(SimpleNamespace(configurations={}), {})) == []  # pyright: ignore[reportArgumentType]


N = sympy.Symbol("n", integer=True, positive=True)


def judged(monkeypatch: pytest.MonkeyPatch, moved: dict[str, Any], **budgets: Any) -> list[tuple[Verdict, str]]:
    """Judge a call of two autotuned kernels.

    `moved` has the bytes of combinations; the others move 8*n.
    """

    def work(expr: Any) -> Work:
        return Work(
            {"reads": expr, "writes": sympy.S.Zero, "atomics": sympy.S.Zero}, {"n": 100}, lambda _: True, True, 800, 0, 0
        )

    def derive_with(chosen: Any) -> Any:
        found = moved.get(",".join(map(str, chosen.values())), 8 * N)
        if found is None:
            raise NoConfigurationError("none", "none")
        return SimpleNamespace(expr=found)

    def work_of(derived: Any) -> Work:
        return work(derived.expr)

    monkeypatch.setattr(configurations, "work_of", work_of)
    first: Any = SimpleNamespace(expr=8 * N, configurations=TUNED)
    found = judge_all(first, derive_with, budgets)
    assert [one.budget for one in found] == list(budgets)
    return [(one.verdict, one.reason) for one in found]


def test_a_budget_holds_with_each_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    here = "800 B, the limit is 800 B at n=100"
    assert judged(monkeypatch, {}, max_bytes="8*n") == [(Verdict.SAME, f"{here}; within it with each of 6 configurations")]
    assert judged(monkeypatch, {"2,3": None}, max_bytes="8*n")[0][1].endswith("with each of 5 configurations")
    over = "900 B, the limit is 800 B at n=100: 100 B too many, with BLOCK=2, STEP=3"
    assert judged(monkeypatch, {"2,3": 9 * N, "2,1": 7 * N}, max_bytes="8*n") == [(Verdict.WORSE, over)]
    growing = judged(monkeypatch, {"1,2": 8 * N + N * (N - 100)}, max_bytes="8*n", vs_compulsory=1.5)
    assert [verdict for verdict, _ in growing] == [Verdict.GROWTH, Verdict.SAME]


def test_the_budget_of_a_configuration_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices of warps count where spills are held, and only there."""
    tried: list[Any] = []

    def judge(_: Any, budgets: dict[str, Any]) -> list[configurations.Judgement]:
        verdict = Verdict.WORSE if tried else Verdict.SAME
        return [configurations.Judgement(name, verdict, "so") for name in budgets]

    monkeypatch.setattr(configurations, "work_of", lambda derived: derived)
    monkeypatch.setattr(configurations, "judge", judge)
    warps: Any = SimpleNamespace(configurations={"one": ({"num_warps": 4}, {"num_warps": 8})})
    for budgets, found in (({"max_bytes": 1}, "so"), ({"max_spills": 0}, "so, with num_warps=4")):
        judged = judge_all(warps, lambda chosen: tried.append(chosen) or warps, budgets)
        assert [(one.budget, one.reason) for one in judged] == [(next(iter(budgets)), found)]
        assert tried == ([] if found == "so" else [{"one:num_warps": 4}])


def test_too_many_combinations_are_not_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configurations, "MOST_COMBINATIONS", 5)
    reason = "the kernels have over 5 combinations of configurations"
    assert judged(monkeypatch, {}, max_bytes="8*n", max_reads=1) == [
        (Verdict.UNSURE, reason), (Verdict.WORSE, "800 B, the limit is 1 B at n=100: 799 B too many"),
    ]  # fmt: skip
