"""When the fixture passes, fails or writes, on verdicts that are made up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.gate import derived_snapshot, failure, snapshot, traffic_fixture
from ioaware.gate.budgets import Judgement as Judged
from ioaware.gate.ci.outcome import Outcome
from ioaware.gate.derived_snapshot import Recorded
from ioaware.gate.kernel_facts import FACTS
from ioaware.gate.row import Header
from ioaware.gate.snapshot import Judgement, snapshot_of
from ioaware.gate.symbolic_call import DEFAULT_SIZES, SymbolicSize
from ioaware.gate.traffic_fixture import Expected, Gated, Traffic, TrafficChangedError
from ioaware.gate.verdict import Verdict

HEADER = Header("3", "cuda:90", "0123")
MADE = {"reads": "n", "writes": "n"}


class Run:
    """One comparison of a fixture in a mode; `done` says which costly steps it took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: Any = None, *, tuned: int = 0, exact: bool = True) -> None:
        self.done: list[str] = []
        self.exact, self.verdict = exact, Judgement(Verdict.WORSE, "reads: +4")
        now = Recorded(MADE, (({"n": 4}, (4, 4)),), {**dict.fromkeys(FACTS), "registers": 8}, HEADER, choices=tuned)
        self.fixture = Traffic("t.py::test", {}, mode, Path("/root"))
        monkeypatch.setattr(derived_snapshot, "recorded", lambda derived: now)
        monkeypatch.setattr(derived_snapshot, "with_other_constants", lambda now, derived, derive_at: now)
        monkeypatch.setattr(failure, "failure_text", lambda *given: f"accept with {given[4]}")
        monkeypatch.setattr(snapshot, "judge_snapshot", lambda *_, **__: self.verdict)

    def compare(self, place: Any = None, **given: Any) -> Outcome:
        """Compare; the outcome's message is that of the failure."""
        found = SimpleNamespace(most_bytes=8, fingerprint="2, 0123456789ab", unknown="")
        gated: Any = SimpleNamespace(
            derived=SimpleNamespace(target="k:f", exact=self.exact), outcome=Outcome("t.py::test"), derive_at=None,
            compile=lambda: self.done.append("compile"),
            all_configurations=lambda: self.done.append("configurations") or found,
        )  # fmt: skip
        with suppress(TrafficChangedError):
            self.fixture.compare(gated, Expected(snapshot_of(**given), place))
        assert self.fixture.failures[-1:] == [gated.outcome.message] or not gated.outcome.message
        return gated.outcome


@pytest.fixture
def place() -> Any:
    return SimpleNamespace(source="traffic.snapshot()", path=Path("t.py"), line=3)


def test_the_verdict_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    worse = run.compare(**MADE)
    assert (worse.verdict, worse.reason) == ("WORSE", "reads: +4")
    assert worse.message == "accept with pytest t.py::test --traffic=accept"
    run.verdict = Judgement(Verdict.INCOMPARABLE, "the snapshot is missing")
    missing = run.compare()
    assert (missing.verdict, missing.reason) == ("MISSING", "the snapshot is missing")
    assert missing.message == "accept with pytest t.py::test --traffic=create"
    assert run.compare(**MADE).message.endswith("--traffic=accept")
    run.verdict = Judgement(Verdict.WORSE, "the snapshot is missing; more registers")
    assert run.compare(registers=1).message.endswith("--traffic=accept")
    run.verdict = Judgement(Verdict.SAME, "equal")
    same = run.compare(**MADE)
    assert (same.verdict, same.reason, same.message) == ("SAME", "equal", "")
    assert (run.fixture.gates, len(run.fixture.failures), run.fixture.edits) == (5, 4, [])


@pytest.mark.parametrize(
    ("mode", "given", "verdict"),
    [
        ("create", {}, "WRITTEN"), ("create", MADE, "INCOMPARABLE"), ("accept", MADE, "WRITTEN"), ("accept", {}, "WRITTEN"),
        (None, MADE, "INCOMPARABLE"), ("accept", {**MADE, "registers": 3}, "WRITTEN"),
        ("accept", {**MADE, "shared_bytes": 3}, "INCOMPARABLE"),  # which is not known now
    ],
)  # fmt: skip
def test_what_is_written_in_each_mode(
    mode: Any, given: dict[str, Any], verdict: str, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(monkeypatch, mode)
    run.verdict = Judgement(Verdict.INCOMPARABLE, "not comparable")
    found = run.compare(place, **given)
    assert found.verdict == verdict
    assert len(run.fixture.edits) == (verdict == "WRITTEN")
    if verdict == "WRITTEN":
        assert found.reason == f"{mode}: the snapshot is written if the test passes"
        assert dict(run.fixture.edits[0].arguments)["made_with"] == '"triton 3, cuda:90, ir 0123"'
        assert ("registers" in dict(run.fixture.edits[0].arguments)) == ("registers" in given)


def test_nothing_is_written_without_a_place_or_exact_bytes(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Run(monkeypatch, "accept").compare(None, **MADE).verdict == "WORSE"
    assert Run(monkeypatch, "accept", exact=False).compare(place, **MADE).verdict == "WORSE"


@pytest.mark.parametrize(
    ("mode", "tuned", "exact", "given", "done"),
    [
        (None, 2, True, {}, []),
        (None, 2, True, {"most_bytes": 8}, ["configurations"]),
        (None, 2, True, {"configurations": "2, 0123456789ab"}, ["configurations"]),
        (None, 2, False, {"most_bytes": 8}, []),
        ("accept", 2, True, {}, ["configurations"]),
        ("accept", 0, True, {}, []),
        (None, 0, True, {"registers": 8}, ["compile"]),
        (None, 0, True, {"sector_bytes": 8}, []),
    ],
)
def test_what_is_derived_again_only_where_it_is_held(
    mode: Any, tuned: int, exact: bool, given: dict[str, Any], done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(monkeypatch, mode, tuned=tuned, exact=exact)
    run.compare(**MADE, **given)
    assert run.done == done


class Derivations:
    """Derivations of a call that are made up.

    `sizes` and `options` are those of each, and `chosen` is a configuration that a budget tries.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.options: list[dict[str, Any]] = []
        self.sizes: list[dict[str, int]] = []
        self.chosen = {"k:BLOCK": 64}
        self.derived: Any = SimpleNamespace(target="k:f", params={}, requested=None, compulsory=None, kernels=(), files=())
        monkeypatch.setattr(traffic_fixture, "derive_call", self.derive)
        monkeypatch.setattr(traffic_fixture, "judge_all", self.judge)

    def derive(self, function: Any, args: Any, kwargs: Any, sizes: dict[str, int], **options: Any) -> Any:
        self.sizes.append(sizes)
        self.options.append(options)
        return self.derived

    def judge(self, derived: Any, derive_with: Any, budgets: Any) -> list[Judged]:
        assert derive_with(self.chosen) is derived
        return [Judged(name, Verdict.SAME, "within it") for name in budgets]

    def call(self, fixture: Traffic) -> Gated:
        frame = SimpleNamespace(f_code=SimpleNamespace(co_filename="t.py"), f_lineno=7)
        return vars(Traffic)["_gated"](fixture, len, (1,), {}, frame)


@pytest.mark.parametrize("budgets", [{"max_spills": 0}, {"max_bytes": 1}, {"max_bytes": 1, "max_spills": 0}], ids=str)
def test_budgets_are_judged_with_each_configuration(budgets: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Spills are those of machine code, which is compiled for them alone."""
    made, fixture = Derivations(monkeypatch), Traffic("t.py::test", budgets | {"gpu": "cuda:80"}, None, Path("/root"))
    gated = made.call(fixture)
    first = {"gpu": "cuda:80", "machine_code": "max_spills" in budgets}
    assert made.options == [first, first | {"autotune": made.chosen}]
    assert [(one.verdict, one.reason) for one in fixture.outcomes] == [("SAME", "within its budgets")]
    assert (fixture.gates, fixture.unfinished(), gated.derived) == (1, "", made.derived)


def test_a_call_without_budgets_is_open_until_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    made, fixture = Derivations(monkeypatch), Traffic("t.py::test", {}, None, Path("/root"))
    gated = made.call(fixture)
    assert made.options == [{"gpu": "cuda:90", "machine_code": False}]
    assert fixture.unfinished() == "a result of traffic(...) or a traffic.snapshot(...) is compared with nothing"
    assert [one.budget for one in gated.judge({"max_spills": 0})] == ["max_spills"]  # of a snapshot
    assert made.options[1] == {"gpu": "cuda:90", "machine_code": True, "autotune": made.chosen}


def test_a_size_has_its_value_at_the_first_point(monkeypatch: pytest.MonkeyPatch) -> None:
    made, fixture = Derivations(monkeypatch), Traffic("t.py::test", {}, None, Path("/root"))
    assert (fixture.size("n", 7), fixture.size("m"), fixture.size("n")) == tuple(map(SymbolicSize, "nmn"))
    made.call(fixture).derive_at({"m": 3})
    assert made.sizes == [{"n": 7, "m": DEFAULT_SIZES[0]}, {"n": 7, "m": 3}]
