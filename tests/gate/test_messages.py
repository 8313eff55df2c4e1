"""What the gate says: each message in full, and the keys of each JSON document."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import IoawareError
from ioaware.gate.differences import differences
from ioaware.gate.formulas.formula_names import admission, read_pair, symbols
from ioaware.gate.formulas.formula_order import compare
from ioaware.gate.formulas.formula_reader import EXAMPLE, LONGEST_TEXT, read_formula
from ioaware.gate.measured.comparison import Comparison, compare_runs, measured_results
from ioaware.gate.measured.measured_row import Compared
from ioaware.gate.repository.coverage import Coverage
from ioaware.gate.repository.ledger import LEDGER, REMEDY, ledger_of, read_ledger
from ioaware.gate.row import Row, row_of
from ioaware.gate.snapshot import snapshot_of
from ioaware.gate.verdict import Verdict
from ioaware.result_file import write_jsonl
from tests.support.gate_rows import document
from tests.support.measured_runs import point

NAMES = symbols(["n", "m"])
ACCEPT = "Let pytest write it: --traffic=accept."


def formula(text: Any) -> Callable[[], Any]:
    return lambda: read_formula(text, NAMES)


def snapshot(**given: Any) -> Callable[[], Any]:
    return lambda: snapshot_of(**{"reads": "n", "writes": "n", **given})


MESSAGES: list[tuple[Callable[[], Any], str, str]] = [
    (formula(3), "a formula is text, not 3", EXAMPLE),
    (formula("n" * (LONGEST_TEXT + 1)), "a formula of 20001 characters is longer than 20000", EXAMPLE),
    (formula("n;m"), "'n;m' is no formula: ';' is not part of a formula", EXAMPLE),
    (formula("n n"), "'n n' is no formula: 'n' is not expected", EXAMPLE),
    (formula("(n"), "'(n' is no formula: ')' is expected at the end", EXAMPLE),
    (formula("(n m"), "'(n m' is no formula: ')' is expected before 'm'", EXAMPLE),
    (formula("n/0"), "'n/0' is no formula: it divides by zero", EXAMPLE),
    (formula("n**99"), "'n**99' is no formula: a power is at most 16", EXAMPLE),
    (formula("n**m"), "'n**m' is no formula: a power is an integer", EXAMPLE),
    (formula("1" * 31), f"'{'1' * 31}' is no formula: a number has at most 30 digits", EXAMPLE),
    (formula("(" + "9" * 30 + "**16)**16"), "a number has more than 4096 bits", EXAMPLE),
    (formula("q"), "'q' is no formula: 'q' is no name here, of m, n", EXAMPLE),
    (lambda: read_formula("q", {}), "'q' is no formula: 'q' is no name here, of none", EXAMPLE),
    (formula(""), "'' is no formula: it ends too early", EXAMPLE),
    (formula("[n != m]"), "'[n != m]' is no formula: a bracket has no '!='", EXAMPLE),
    (formula("(n if n != m else 1)"), "a case has no condition with '!='", EXAMPLE),
    (formula("[n m]"), "'[n m]' is no formula: a comparison is expected before 'm'", EXAMPLE),
    (formula("ceil(n, m)"), "'ceil(n, m)' is no formula: ceil takes other arguments", EXAMPLE),
    (formula("cdiv(n)"), "'cdiv(n)' is no formula: cdiv takes other arguments", EXAMPLE),
    (formula("cdiv(n, 0)"), "'cdiv(n, 0)' is no formula: cdiv takes other arguments", EXAMPLE),
    (formula("min(n)"), "'min(n)' is no formula: min takes other arguments", EXAMPLE),
    (formula("sum(n)"), "'sum(n)' is no formula: a sum names its range: sum(i for i in range(n))", EXAMPLE),
    (formula("sum(1 for 3 in range(n))"), "'3' is no index", EXAMPLE),
    (formula("sum(1 for"), "'' is no index", EXAMPLE),
    (snapshot(more=1, also=2), "a snapshot has no argument also, more", ACCEPT),
    (lambda: snapshot_of(reads="n"), "the snapshot has no writes", ACCEPT),
    (snapshot(writes=" "), "writes of a snapshot is a formula in text, not ' '", ACCEPT),
    (snapshot(registers=-1), "registers of a snapshot is a whole number, not -1", ACCEPT),
    (snapshot(at=[]), "`at` of a snapshot is a table of points, not []", ACCEPT),
    (snapshot(at={}), "`at` of a snapshot is a table of points, not {}", ACCEPT),
    (snapshot(at={"n=1": (1,)}), "the snapshot has (1,) at 'n=1', and 2 formulas", ACCEPT),
    (snapshot(at={"n=1": [1, 2]}), "the snapshot has [1, 2] at 'n=1', and 2 formulas", ACCEPT),
    (snapshot(sector_bytes=(1, True)), "sector_bytes of a snapshot are whole numbers, not (1, True)", ACCEPT),
    (snapshot(sector_bytes=()), "sector_bytes of a snapshot is a whole number, not ()", ACCEPT),
    (
        snapshot(at={"n=1": (1, 1)}, sector_bytes=(32, 32)), "the snapshot has 2 numbers of sectors and 1 points", ACCEPT),
    (snapshot(at={"n=1": (1, True)}), "the snapshot has (1, True) at 'n=1', which are not whole numbers", ACCEPT),
    (snapshot(at={"n": (1, 2)}), "'n' is no point of a snapshot", ACCEPT),
    (snapshot(at={3: (1, 2)}), "3 is no point of a snapshot", ACCEPT),
    (snapshot(made_with="me"), "'me' does not say what made a snapshot", ACCEPT),
    (snapshot(made_with=3), "3 does not say what made a snapshot", ACCEPT),
    (lambda: measured_results(Path("none.db")), "there is no file none.db", "Measure it: ioaware sweep STUDY --store FILE."),
    (lambda: compare_runs([point(1), point(1)], ()),
     "add n=1 was measured twice in one run", "Compare runs of one machine each."),
    (lambda: compare_runs([point(1), point(2)], []), "2 points are missing in the new run: add n=1, add n=2", "Measure them."),
    (lambda: compare_runs([], [point(1)]), "1 points are missing in the old run: add n=1", "Measure them."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "what", "remedy"), MESSAGES, ids=[what[:50] for _, what, _ in MESSAGES])
def test_errors(call: Callable[[], Any], what: str, remedy: str) -> None:
    with pytest.raises(IoawareError) as raised:
        call()
    assert raised.value.what.endswith(what) if "is no formula" not in what else raised.value.what == what
    assert raised.value.remedy == remedy


def test_a_file_without_measured_points(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "r.jsonl", [replace(point(), source="trace")])
    with pytest.raises(IoawareError) as raised:
        measured_results(tmp_path / "r.jsonl")
    found = (raised.value.what, raised.value.remedy)
    assert found == (f"{tmp_path / 'r.jsonl'} holds no measured point", "Sweep a study with the source measure into it.")


LEDGERS = {
    "schema = 2": "schema 2, this version reads schema 1",
    "schema = 1\nmore = 1\nalso = 1": "unknown entry also, more",
    "schema = 1\ncount = 0": "no kernels",
    "schema = 1\ncount = 2\n[kernels]": "count is 2, and it has 0 kernels",
    "schema = 1\ncount = 1\n[kernels]\nk = 1": "k is no table",
    "schema = 1\ncount = 1\n[kernels]\nk = { test = [] }": "k: only `tests`, `exempt` and `pending` are known",
    "schema = 1\ncount = 1\n[kernels]\nk = { tests = [''] }": "k: tests are a list of names",
    "schema = 1\ncount = 1\n[kernels]\nk = { tests = 3 }": "k: tests are a list of names",
    "schema = 1\ncount = 1\n[kernels]\nk = { exempt = ' ' }": "k: an exemption is a reason in words",
}


@pytest.mark.parametrize(("text", "why"), LEDGERS.items(), ids=LEDGERS.values())
def test_damaged_ledgers(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text(text)
    with pytest.raises(IoawareError) as raised:
        read_ledger(tmp_path)
    assert (raised.value.what, raised.value.remedy) == (f"{tmp_path / LEDGER}: not a ledger ({why})", REMEDY)
    with pytest.raises(ValueError, match=r".") as inner:
        ledger_of(text)
    assert str(inner.value) == why


def row(**changes: Any) -> Row:
    return row_of({**document(), **changes}, "row")


ROWS = {
    "'x' is no object": "x",
    "schema 2 of source 'derive'; this version reads schema 1 of derive": {**document(), "schema": 2},
    "schema 1 of source 'x'; this version reads schema 1 of derive": {**document(), "source": "x"},
    "no launch": {**document(), "launches": []},
    "'3' is no text": {**document(), "target": 3},
    "'1' is neither true nor false": {**document(), "exact": 1},
    "a parameter is a number, text, true or false": {**document(), "params": {"n": []}},
    "read_bytes must be a non-negative integer, not '-1'": {**document(), "compulsory": {"read_bytes": -1, "write_bytes": 1}},
}


@pytest.mark.parametrize(("why", "found"), ROWS.items(), ids=ROWS)
def test_rows_that_are_refused(why: str, found: Any) -> None:
    with pytest.raises(IoawareError) as raised:
        row_of(found, "here")
    assert raised.value.what == f"here: not what `ioaware derive --json` prints ({why})"
    assert raised.value.remedy == "Derive it again."


def test_what_a_row_keeps() -> None:
    found = row(notes=["one"], conditions=["n >= 1"])
    assert (found.notes, found.conditions, found.compulsory, found.total_bytes) == (("one",), ("n >= 1",), 12_000, 12_000)
    two = row_of({**document(), "launches": [{**document()["launches"][0], "tma_loads": 2, "registers": 9}] * 2}, "row")
    assert (two.resources["tma_loads"], two.resources["registers"], len(two.header.ir)) == (4, 9, 12)
    plain = document()
    del plain["launches"][0]["origin"]
    assert row_of(plain, "row").header == row().header


def test_pairs_of_rows() -> None:
    other = replace(row(), target="b.py:f")
    with pytest.raises(IoawareError) as raised:
        differences([row(), other], [other])
    what = "1 rows are on one side only, the first is add.py:add n=1000 (old)"
    assert (raised.value.what, raised.value.remedy) == (what, "Sweep the same study into both stores.")
    with pytest.raises(IoawareError, match=r"the first is add.py:add n=1000 \(new\)"):
        differences([other], [row(), other])
    with pytest.raises(IoawareError) as twice:
        differences([row(), row()], [row(), other])
    assert (twice.value.what, twice.value.remedy) == ("a side has two rows of one target and parameters", "Keep one of each.")
    grown = row_of(document("12*n", 12_000, ir_hash="ba9876543210"), "row")
    found = differences([row(), other], [grown, other]).to_dict()
    assert [part["verdict"] for part in found.pop("parts")] == ["WORSE", "SAME"]
    assert found == {"schema": 1, "verdict": "WORSE", "reason": "reads: +4,000 at n=1000", "rows": []}
    single = differences([row()], [grown]).to_dict()
    header = "triton 3.7.1, cuda:90, ir 0123456789ab"
    assert single["old"] == {"target": "add.py:add", "header": header}
    verdicts = {entry["name"]: (entry["verdict"], entry["reason"], entry["gated"]) for entry in single["rows"]}
    assert verdicts["registers"] == ("SAME", "equal", False)
    assert verdicts["read_sectors"] == ("WORSE", "+4,000", True)


def test_which_side_is_not_exact() -> None:
    def reason(old: bool, new: bool) -> str:
        return differences([replace(row(), exact=old)], [replace(row(), exact=new)]).parts[0].reason

    assert [reason(False, False), reason(False, True), reason(True, False)] == [
        "both sides are not exact", "the old is not exact", "the new is not exact",
    ]  # fmt: skip


def test_numbers_that_are_unknown() -> None:
    def entry(old: Any, new: Any) -> Any:
        before, after = (replace(row(), resources={**row().resources, "local_bytes": one}) for one in (old, new))
        return next(one for one in differences([before], [after]).parts[0].rows if one.name == "spills")

    assert [entry(*pair).reason for pair in ((None, None), (0, None), (None, 0))] == ["unknown", *["unknown on one side"] * 2]
    assert [entry(*pair).gated for pair in ((None, None), (0, None), (None, 0))] == [False, True, True]
    assert (entry(4, 9).old, entry(4, 9).new, entry(4, 9).reason) == (4, 9, "+5")


def test_the_documents() -> None:
    one = Compared("k", "n=1", Verdict.SAME, "equal", Verdict.UNSURE, "wide", 1.01)
    assert one.to_dict() == {
        "target": "k", "params": "n=1", "bytes_verdict": "SAME", "bytes_reason": "equal", "time_verdict": "UNSURE",
        "time_reason": "wide", "time_ratio": 1.01,
    }  # fmt: skip
    bare = Compared("k", "n=1", Verdict.WORSE, "more", None, "")
    assert bare.to_dict() == {"target": "k", "params": "n=1", "bytes_verdict": "WORSE", "bytes_reason": "more"}
    assert Comparison((one,), ("new",)).to_dict() == {
        "schema": 1, "verdict": "SAME", "unsure_times": 1, "new_points": ["new"], "points": [one.to_dict()],
    }  # fmt: skip
    found = Coverage((("k.py:a", "gated", "t"), ("k.py:b", "exempt", "data"), ("k.py:c", "pending", "")), ("gone",)).to_dict()
    assert found.pop("kernels")[1] == {"kernel": "k.py:b", "state": "exempt", "why": "data"}
    assert found == {"schema": 1, "share_percent": 50.0, "gated": 1, "exempt": 1, "pending": 1, "stale": ["gone"]}
    assert json.loads(json.dumps(found)) == found


def test_reasons_of_a_comparison() -> None:
    def of(old: str, new: str, *points: dict[str, int]) -> tuple[str, str, int]:
        pair = read_pair(old, new, ["n", "m"])
        assert not isinstance(pair, str)
        found = compare(*pair, points)
        return str(found.verdict), found.reason, len(found.values)

    at = {"n": 8, "m": 4}
    assert of("n + n", "2*n", at) == ("SAME", "equal at every size", 1)
    assert of("n", "2*n", at) == ("WORSE", "+8 at n=8, m=4", 1)
    assert of("2*n", "n", at) == ("BETTER", "-8 at n=8, m=4", 1)
    assert of("n", "m", {"n": 8}) == ("INCOMPARABLE", "a formula has no value at the sizes of the gate", 1)
    assert of("n", "m") == ("INCOMPARABLE", "a formula has no value at the sizes of the gate", 0)
    assert of("8*n", "n*n", at) == ("GROWTH", "the same bytes here, another growth: +128 at n=16, m=8", 1)
    assert of("9*n", "n*n", at)[:2] == ("GROWTH", "fewer bytes here, another growth: +112 at n=16, m=8")


def test_formulas_that_cannot_be_read() -> None:
    assert read_pair("q", "n", ["n"]) == "the old formula cannot be read: 'q' is no formula: 'q' is no name here, of n"
    assert read_pair("n", "q", ["n"]) == "the new formula cannot be read: 'q' is no formula: 'q' is no name here, of n"
    assert not admission(["q > 1"], ["n"])({"n": 4})
    holds = admission(["n > 1 and n % 4 == 0", "m != 3"], ["n", "m"])
    assert [holds({"n": n, "m": m}) for n, m in ((4, 1), (1, 1), (6, 1), (4, 3))] == [True, False, False, False]
    assert not holds({"n": 4})


VALUES = {
    "[n > m]": [0, 0, 1], "[n < m]": [1, 0, 0], "[n >= m]": [0, 1, 1], "[n <= m]": [1, 1, 0], "[n == m]": [0, 1, 0],
    "ceil(n/2)": [1, 2, 2], "floor(n/2)": [1, 1, 2], "cdiv(n, 2)": [1, 2, 2], "n//2": [1, 1, 2], "n % 2": [0, 1, 0],
    "min(n, m)": [2, 3, 3], "max(n, m, 1)": [3, 3, 4], "-n + - - m": [1, 0, -1], "2*n**2": [8, 18, 32],
    "(1 if n > m else 5)": [5, 5, 1], "(1 if n >= m and n < 4 else 5)": [5, 1, 5], "sum(i*m for i in range(n))": [3, 9, 18],
    "(1 if n > m else 2 if n == m else 3)": [3, 2, 1],
    "sum(i for i in range(1, n))": [1, 3, 6], "sum(i*j for i in range(n) for j in range(m))": [3, 9, 18],
}  # fmt: skip


@pytest.mark.parametrize(("text", "values"), VALUES.items(), ids=VALUES)
def test_values_of_formulas(text: str, values: list[int]) -> None:
    from ioaware.gate.formulas.formula_order import value_at

    found = read_formula(text, NAMES)
    assert [value_at(found, {"n": n, "m": 3}) for n in (2, 3, 4)] == values
