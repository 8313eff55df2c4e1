"""What the fixture `traffic` says where nothing is gated, and how it shows itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate import pytest_plugin, snapshot
from ioaware.gate.budgets import Judgement
from ioaware.gate.ci.outcome import Outcome
from ioaware.gate.derived_snapshot import header_of
from ioaware.gate.kernel_facts import FACTS
from ioaware.gate.repository.ledger import Entry, Ledger
from ioaware.gate.snapshot import judge_snapshot, snapshot_of
from ioaware.gate.traffic_fixture import Expected, Gated, Traffic, TrafficChangedError, kernels_of, snapshot_arguments
from ioaware.gate.verdict import Verdict
from ioaware.result import Launch
from ioaware.result import Traffic as Bytes


def traffic(**options: Any) -> Traffic:
    return Traffic("t.py::test", {"max_bytes": "6*n"}, None, Path("/root"), **options)


def test_a_test_that_gates_nothing() -> None:
    fixture = traffic()
    nothing = "the test uses traffic and compares nothing (python -O removes assertions)"
    assert fixture.unfinished() == nothing
    fixture.gates = 1
    assert fixture.unfinished() == ""
    fixture._open.append(object())  # pyright: ignore[reportPrivateUsage]
    assert fixture.unfinished() == "a result of traffic(...) or a traffic.snapshot(...) is compared with nothing"
    with pytest.raises(TrafficChangedError, match=r"^WORSE$"):
        fixture._fail("WORSE")  # pyright: ignore[reportPrivateUsage]
    assert fixture.unfinished() == "the test passed although its gate failed:\nWORSE"


def test_the_outcome_of_a_call() -> None:
    derived: Any = SimpleNamespace(
        target="k:f", params={"n": 4, "m": 2}, compulsory=Bytes(6, 4),
        requested=Bytes(8, 4, read_formula="2*n", write_formula="n"),
    )  # fmt: skip
    frame: Any = SimpleNamespace(f_code=SimpleNamespace(co_filename="t.py"), f_lineno=7)
    found = traffic()._outcome(derived, frame)  # pyright: ignore[reportPrivateUsage]
    whole = Outcome(
        "t.py::test", "k:f", "t.py", 7, "cuda:90", reads="2*n", writes="n", point="n=4, m=2", bytes=12, compulsory=10
    )
    assert found == whole
    derived.requested = derived.compulsory = None
    found = traffic()._outcome(derived, frame)  # pyright: ignore[reportPrivateUsage]
    assert (found.reads, found.writes, found.bytes, found.compulsory) == ("", "", None, None)


def test_sizes_of_tensors() -> None:
    fixture = traffic()
    assert fixture.tensor("n", 64, dtype="torch.float16").dtype == "float16"
    assert (fixture.tensor("n").dtype, fixture.tensor("n").strides) == ("float32", None)
    for size in (0, -1, 1.5, True, None):
        with pytest.raises(UsageError) as raised:
            fixture.tensor("n", size)  # type: ignore[arg-type]
        assert raised.value.what == f"a size is a name or a positive integer, not {size!r}"


def test_how_both_sides_compare_and_show_themselves() -> None:
    expected, empty = Expected(snapshot_of(reads="n", writes="m"), None), Expected(snapshot_of(), None)
    assert (repr(expected), repr(empty)) == ("traffic.snapshot(...)", "traffic.snapshot()")
    compared: list[Any] = []
    fixture: Any = SimpleNamespace(compare=lambda gated, other: compared.append((gated, other)))
    derived: Any = SimpleNamespace(target="f", requested=Bytes(1, 1, read_formula="n", write_formula="m"))
    gated = Gated(fixture, derived, Outcome("t"), lambda _, **__: derived)
    assert gated == expected
    assert expected == gated
    assert compared == [(gated, expected)] * 2
    assert expected != 3
    with pytest.raises(TypeError, match=r"^traffic is compared with traffic.snapshot\(...\), not with int$"):
        assert gated == 3
    assert repr(gated) == "<traffic of f: reads n, writes m>"
    derived.requested = None
    assert repr(gated) == "<traffic of f: reads None, writes None>"


def test_kernels_below_the_root() -> None:
    names: tuple[Any, ...] = (SimpleNamespace(kernel="a"), SimpleNamespace(kernel="b"), None, SimpleNamespace(kernel="d"))
    derived: Any = SimpleNamespace(kernels=names, files=("/root/ops/k.py", "/other/k.py", "/root/k.py", None))
    assert kernels_of(derived, Path("/root")) == {"ops/k.py:a"}


def test_a_kernel_that_a_test_no_longer_launches() -> None:
    ledger = Ledger({"a.py:old": Entry(["t.py::one"]), "a.py:kept": Entry(["t.py::one"]), "b.py:k": Entry(["t.py::two"])})
    stale: Any = vars(pytest_plugin)["_stale"]
    session: Any = SimpleNamespace(ledger=ledger, mode="")
    said = "traffic-ledger.toml says that this test gates a.py:old, which it does not launch"
    accept = "accept with pytest t.py::one --traffic=accept"
    assert stale(session, "t.py::one", {"a.py:kept"}) == f"{said}; {accept}"
    renamed = stale(session, "t.py::one", {"a.py:kept", "a.py:z", "a.py:new"})
    assert renamed == f"{said}; it launches a.py:new, a.py:z; {accept}"
    assert stale(session, "t.py::one", {"a.py:kept", "a.py:old", "a.py:new"}) == ""
    assert stale(SimpleNamespace(ledger=ledger, mode="accept"), "t.py::one", set()) == ""
    assert stale(SimpleNamespace(ledger=None, mode=""), "t.py::one", set()) == ""


def test_a_budget_that_is_exceeded_says_which_and_why() -> None:
    over = [
        Judgement("max_bytes", Verdict.WORSE, "9 B"),
        Judgement("max_reads", Verdict.SAME, "8 B"),
        Judgement("max_spills", Verdict.INCOMPARABLE, "not known"),
    ]
    call: Any = SimpleNamespace(target="k:f", exact=False)
    gated: Any = SimpleNamespace(derived=call, outcome=Outcome("t"), judge=lambda limits: over)
    with pytest.raises(TrafficChangedError) as error:
        traffic()._hold(gated, {"max_bytes": 1})
    assert str(error.value).splitlines() == [
        "WORSE: k:f is not within max_bytes",
        "  why         9 B",
        "INCOMPARABLE: k:f is not within max_spills",
        "  why         not known",
        "  A budget is not raised by --traffic=accept; change it in the test.",
    ]
    assert (gated.outcome.verdict, gated.outcome.reason) == ("WORSE", "max_bytes: 9 B")
    assert gated.outcome.message == str(error.value)


def test_points_without_a_value_are_left_out_of_a_snapshot() -> None:
    now: Any = SimpleNamespace(
        texts={"reads": "n"}, values=(({"n": 4}, (16, 8)), ({"n": 5}, (None, 8)), ({}, (16, 8))),
        facts=dict.fromkeys(FACTS), header="made", where=("n <= 9", "n >= 2"), configurations="",
    )  # fmt: skip
    assert snapshot_arguments(now, ()) == [
        ("reads", '"n"'), ("at", '{\n    "n=4": (16, 8),\n}'), ("where", '"n <= 9 and n >= 2"'), ("made_with", '"made"'),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("others", "second", "written"),
    [((96,), 8, "(64, 96)"), ((None,), 8, "64"), ((), 8, "64"), ((96,), None, "64")],
)
def test_sectors_are_those_of_each_point_that_is_written(
    others: tuple[int | None, ...], second: int | None, written: str
) -> None:
    facts = {**dict.fromkeys(FACTS), "sector_bytes": 64}
    values = (({"n": 4}, (16,)), ({"n": 5}, (second,)))
    now: Any = SimpleNamespace(
        texts={"reads": "n"}, values=values, facts=facts, header="made", where=(), configurations="", other_sectors=others
    )
    assert dict(snapshot_arguments(now, ()))["sector_bytes"] == written


@pytest.mark.parametrize(("loads", "names", "written"), [(2, (), ["2"]), (0, (), []), (0, ("tma_loads",), ["0"])])
def test_tma_loads_are_recorded_where_there_are_some(loads: int, names: tuple[str, ...], written: list[str]) -> None:
    facts = {**dict.fromkeys(FACTS, 8), "sector_bytes": None, "most_bytes": None, "tma_loads": loads}
    now: Any = SimpleNamespace(texts={"reads": "n"}, values=(), facts=facts, header="made", where=(), configurations="")
    assert [value for name, value in snapshot_arguments(now, names) if name in FACTS] == written


@pytest.mark.parametrize(("most", "found", "written"), [(8, "2, 0123456789ab", ["8", '"2, 0123456789ab"']), (None, "", [])])
def test_bytes_of_all_configurations(most: int | None, found: str, written: list[str]) -> None:
    facts = {**dict.fromkeys(FACTS), "most_bytes": most}
    now: Any = SimpleNamespace(texts={"reads": "n"}, values=(), facts=facts, header="made", where=(), configurations=found)
    assert [value for name, value in snapshot_arguments(now, ()) if name in ("most_bytes", "configurations")] == written


def test_bytes_that_are_not_exact_give_the_note_of_their_launch() -> None:
    exact, not_exact = (Launch(name, exact=name == "a", notes=(f"note of {name}",)) for name in "ab")
    derived: Any = SimpleNamespace(exact=False, notes=(), launches=(exact, not_exact))
    nothing: Any = None
    found = judge_snapshot(nothing, nothing, derived, nothing)
    assert (found.verdict, found.reason) == (
        Verdict.INCOMPARABLE, "the bytes are not exact, and a snapshot holds exact ones: note of b",
    )  # fmt: skip


def test_sizes_that_the_test_does_not_have() -> None:
    outside: Any = vars(snapshot)["_outside"]
    assert outside([{"n": 1}], {"n"}, lambda point: True, {}) == ""
    assert outside([{"n": 1, "m": 2}], {"k", "j"}, bool, {}) == "the snapshot's sizes are m, n, the test's j, k"
    assert outside([{"n": 1}], set(), bool, {}) == "the snapshot's sizes are n, the test's none"
    said = "the formulas hold under other conditions now, and not at n=1"
    assert outside([{"n": 1}], {"n"}, lambda point: False, {}) == said
    assert outside([{"n": 1}], {"n"}, lambda point: False, {"n": 1}) == said
    assert outside([{"n": 1}], {"n"}, lambda point: False, {"n": 2}) == ""  # derived again there


def test_a_header_hashes_the_kernels_and_not_torchs_operators() -> None:
    def header(*launches: Launch) -> str:
        derived: Any = SimpleNamespace(environment={"triton": "3", "compiled_for": "cuda:90"}, launches=launches)
        return str(header_of(derived))

    kernel, operator = Launch("k", ir_hash="a" * 12), Launch("sum", origin="torch", ir_hash="b" * 12)
    assert header(kernel, operator) == header(kernel) != header(replace(kernel, ir_hash="c" * 12))
    assert header(operator) == header()
