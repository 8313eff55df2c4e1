"""The message of a failing gate.

It has the formulas, their growth, and the lines and operators that moved the bytes.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.analysis.ir import Count
from ioaware.gate import failure
from ioaware.gate.budgets import Judgement as OverBudget
from ioaware.gate.derived_snapshot import Recorded
from ioaware.gate.failure import budget_text, failure_text
from ioaware.gate.formulas.formula_names import symbols
from ioaware.gate.formulas.formula_order import Comparison
from ioaware.gate.formulas.formula_reader import read_formula
from ioaware.gate.kernel_facts import FACTS
from ioaware.gate.row import Header
from ioaware.gate.snapshot import Judgement, snapshot_of
from ioaware.gate.verdict import Verdict
from ioaware.result import Launch, Traffic

POINT, OTHER = {"n": 100}, {"n": 7}
NOW = Recorded({"reads": "8*n", "writes": "4*n"}, ((POINT, (800, 400)),), dict.fromkeys(FACTS), Header("3", "cuda:90", "0123"))
SNAPSHOT = snapshot_of(reads="6*n", writes="4*n", made_with="triton 3, cuda:90, ir 4567")
SAME = Comparison(Verdict.SAME, "equal at every size")
WORSE = Comparison(Verdict.WORSE, "+200 at n=100", ((POINT, 600, 800),))


def derived(**more: Any) -> Any:
    given: dict[str, Any] = {
        "target": "k:f", "exact": True, "compulsory": Traffic(400, 400), "requested": Traffic(800, 400), "launches": (),
        "params": POINT, "values": POINT, "symbols": {"n": 100},
    }  # fmt: skip
    return SimpleNamespace(**(given | more))


def line(number: int, *formulas: str) -> tuple[Any, Any, list[Any]]:
    """Return a line of source that moves these bytes, as a report has it."""
    accesses = [SimpleNamespace(kind="read", bytes=Count(read_formula(text, symbols(["n"])))) for text in formulas]
    return SimpleNamespace(path="/none/k.py"), SimpleNamespace(number=number, text=f"  load {number} "), accesses


def lines(
    monkeypatch: pytest.MonkeyPatch, moving: list[Any], found: Judgement | None = None, snapshot: Any = SNAPSHOT, **more: Any
) -> list[str]:
    monkeypatch.setattr(failure, "_moving", lambda derived, kinds: moving)
    judged = found or Judgement(Verdict.WORSE, "reads: +200 at n=100", {"reads": WORSE, "writes": SAME})
    return failure_text(snapshot, NOW, judged, derived(**more), "pytest t.py", lambda point: derived(**more)).splitlines()


def test_the_whole_message(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, [line(3, "6*n"), line(5, "2*n")]) == [
        "WORSE: k:f: more bytes than the snapshot",
        "  why         reads: +200 at n=100",
        "  reads       6*n",
        "  now         8*n",
        "              n=100: 600 -> 800 (+200, +33.3 %)",
        "  writes      4*n",
        "  from        /none/k.py:5: load 5",
        "              reads 2*n bytes",
        "  compulsory  800 B; requested 1,200 B is 1.5× this",
        "  made with   triton 3, cuda:90, ir 4567",
        "  now         triton 3, cuda:90, ir 0123",
        "  accept with pytest t.py",
    ]


def shown(found: list[str]) -> list[str]:
    """Return the lines of source that a message has, with what it says of them."""
    return [one.replace("/none/k.py:", "").split(":")[0].strip() for one in found if "/none/k.py" in one]


def test_the_lines_that_moved_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(lines(monkeypatch, [line(3, "6*n"), line(5, "n", "2*n"), line(6, "2*n")])) == ["one of      5", "6"]
    assert shown(lines(monkeypatch, [line(3, "6*n"), line(5, "n")])) == ["largest     3", "5"]
    assert shown(lines(monkeypatch, [line(at, "6*n") for at in range(5)])) == ["largest     0", "1", "2"]
    same = Judgement(Verdict.SAME, "equal", {"reads": SAME, "writes": SAME})
    assert shown(lines(monkeypatch, [line(3, "2*n")], same)) == []
    missing = lines(monkeypatch, [line(3, "2*n")], Judgement(Verdict.INCOMPARABLE, "missing"), snapshot_of())
    assert missing == [
        "MISSING: k:f has no snapshot yet", "  reads       8*n", "  writes      4*n",
        "  compulsory  800 B; requested 1,200 B is 1.5× this", "  write it with pytest t.py",
    ]  # fmt: skip


def test_a_difference_that_holds_at_each_size_without_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot has no formula that can be read, so that the numbers decide."""
    unread = snapshot_of(reads="unknown", writes="4*n")
    both = replace(WORSE, values=((POINT, 600, 800),), witness=(OTHER, 42, 56))
    found = Judgement(Verdict.WORSE, "more", {"reads": both, "writes": SAME})
    moving = [line(3, "6*n"), line(4, "n + 100"), line(5, "2*n")]
    assert shown(lines(monkeypatch, moving, found, unread)) == ["from        5"]  # n + 100 is 200 at n=100 alone
    alone = replace(found, comparisons={"reads": WORSE, "writes": SAME})
    assert shown(lines(monkeypatch, moving, alone, unread)) == ["one of      4", "5"]
    nothing = replace(found, comparisons={"reads": replace(WORSE, values=((POINT, 600, 600),)), "writes": SAME})
    assert shown(lines(monkeypatch, [*moving, line(6, "0*n")], nothing, unread))[0] == "largest     3"


def test_growth_elsewhere_shows_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = Comparison(Verdict.GROWTH, "another growth", ((POINT, 0, 0), (OTHER, None, 3)), (OTHER, 42, 1_056))
    found = lines(monkeypatch, [], Judgement(Verdict.GROWTH, "more", {"reads": grown, "writes": SAME}))
    assert found[4:6] == ["              n=100: 0 -> 0 (+0)", "              n=7: 42 -> 1,056 (+1,014)"]


def test_operators_of_torch_the_largest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = {"d": 8, "c": 16, "b": 32, "a": 16}
    launches = (
        *(Launch(name, origin="torch", requested=Traffic(read, 8)) for name, read in moved.items()),
        Launch("unknown", origin="torch"),
        Launch("kernel", requested=Traffic(999, 0)),
    )
    comparisons = {"reads": SAME, "writes": SAME, "torch_reads": WORSE}
    found = Judgement(Verdict.WORSE, "torch_reads: more", comparisons)
    text = lines(monkeypatch, [], found, launches=launches)
    at = next(at for at, one in enumerate(text) if one.startswith("  torch "))
    assert text[at : at + 3] == ["  torch       b: 40 B", "              a: 24 B", "              c: 24 B"]
    assert text[at + 3].startswith("  compulsory")
    equal = Judgement(Verdict.WORSE, "reads: more", {"reads": WORSE, "writes": SAME, "torch_reads": SAME})
    assert not any(one.startswith("  torch  ") for one in lines(monkeypatch, [], equal, launches=launches))


def test_facts_and_bytes_that_no_snapshot_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    equal = {"reads": SAME, "writes": SAME}
    for verdict, said in (
        (Verdict.WORSE, "the same bytes, and a fact of the kernels is worse than the snapshot's"),
        (Verdict.BETTER, "the same bytes, and a fact of the kernels is better than the snapshot's: accept it"),
    ):
        found = lines(monkeypatch, [], Judgement(verdict, "registers", equal))
        assert found[0] == f"{verdict}: k:f: {said}"
    found = lines(monkeypatch, [], Judgement(Verdict.INCOMPARABLE, "no"), exact=False, compulsory=None)
    assert found[0] == "INCOMPARABLE: k:f: cannot be compared with the snapshot"
    assert found[-1] == "  no snapshot can hold these bytes: make the kernel exempt in traffic-ledger.toml, with the reason"
    assert not any("compulsory" in one for one in found)


def test_growth_at_another_constant_is_explained_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are those of the derivation at that size, and fit its difference."""
    there = {"n": 100, "m": 6}
    grown = Comparison(Verdict.GROWTH, "more there", (({"n": 100, "m": 4}, 600, 800),), (there, 600, 650))
    found = Judgement(Verdict.GROWTH, "more there", {"reads": grown, "writes": SAME})
    here, other = derived(params={"n": 100, "m": 4}), derived(target="there")
    moving = {"k:f": [line(3, "2*n")], "there": [line(4, "2*n"), line(5, "50")]}
    points: list[Any] = []

    def derive_at(point: Any) -> Any:
        points.append(point)
        return other

    monkeypatch.setattr(failure, "_moving", lambda one, kinds: moving[one.target] if kinds == ["reads"] else [])
    text = failure_text(SNAPSHOT, NOW, found, here, "pytest t.py", derive_at).splitlines()
    assert (points, shown(text)) == ([there], ["from        5"])


def of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the report of lines have three lines: two that read, one that writes."""
    parts = [line(3, "n"), line(4, "5*n", "n"), line(5, "4*n")]
    for (_, one, accesses), kind in zip(parts, ("read", "read", "write"), strict=True):
        one.accesses = [SimpleNamespace(kind=kind, bytes=access.bytes) for access in accesses]
    section = SimpleNamespace(path="/none/k.py", lines=[one for _, one, _ in parts])
    kernels = [SimpleNamespace(sections=[section])]
    monkeypatch.setattr("ioaware.derivation.line_report.explain", lambda derived: kernels)
    monkeypatch.setattr(failure, "recorded", lambda derived: NOW)


def test_a_line_that_reads_and_writes_shows_each_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    where, source, accesses = line(3, "n", "5*n", "4*n")
    accesses[1].kind = "write"
    monkeypatch.setattr(failure, "_moving", lambda derived, kinds: [(where, source, accesses)])
    monkeypatch.setattr(failure, "recorded", lambda derived: NOW)
    text = budget_text([OverBudget("max_bytes", Verdict.WORSE, "too much")], derived()).splitlines()
    assert text[5] == "              reads n, 4*n bytes; writes 5*n bytes"


def test_a_budget_shows_the_lines_that_move_most(monkeypatch: pytest.MonkeyPatch) -> None:
    of_lines(monkeypatch)

    def text(*budgets: str, **more: Any) -> list[str]:
        over = [OverBudget(name, Verdict.WORSE, f"{name} is too much") for name in budgets]
        return budget_text(over, derived(**more)).splitlines()

    floor = "  compulsory  800 B; requested 1,200 B is 1.5× this"
    last = "  A budget is not raised by --traffic=accept; change it in the test."
    reads = ["  largest     /none/k.py:4: load 4", "              reads 5*n, n bytes"]
    third = ["              /none/k.py:3: load 3", "              reads n bytes"]
    store = ["              /none/k.py:5: load 5", "              writes 4*n bytes"]
    head = ["WORSE: k:f is not within max_reads", "  why         max_reads is too much"]
    assert text("max_reads") == [*head, "  reads       8*n", *reads, *third, floor, last]
    both = ["  reads       8*n", "  writes      4*n", *reads, *store, *third, floor, last]
    assert text("max_bytes")[2:] == text("vs_compulsory")[2:] == both
    assert text("max_spills") == ["WORSE: k:f is not within max_spills", "  why         max_spills is too much", last]
    assert text("max_reads", exact=False) == [*head, last]
