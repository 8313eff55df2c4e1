"""Texts, limits and files of what CI shows, each in full."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.environment import installed_version
from ioaware.errors import DataError, IoawareError, UsageError
from ioaware.gate.ci.annotations import LONGEST_LINE, MOST_LINES, command, error_annotations, workspace_of
from ioaware.gate.ci.comparison_tables import summarise_runs
from ioaware.gate.ci.job_summary import LAST_LINE, MOST_BYTES, Table, job_summary_file, summary, write_summary
from ioaware.gate.ci.outcome import FAILED, MOST_TEXT, OPEN, SKIPPED, Outcome, outcome_of, worst_first
from ioaware.gate.ci.results_file import read_results, write_results
from ioaware.gate.ci.run_history import history_lines, read_runs
from ioaware.gate.ci.session_report import SessionReport, properties
from ioaware.gate.ci.session_report import TestCalls as Calls
from ioaware.gate.measured.comparison import Comparison
from ioaware.gate.measured.measured_row import Compared
from ioaware.gate.verdict import Verdict
from ioaware.report.pages.history_page import HistoryLine, RunLabel
from ioaware.result import Result, Traffic
from ioaware.result_file import write_jsonl

OTHER_TYPE = "time, exit_code or outcomes is of another type"
ONE = Outcome("t.py::test", "add", "t.py", 3, "cuda:90", "SAME", "equal", "2*n", "n", "n=4", 12, 12)


def raised(call: Any, *arguments: Any) -> tuple[type, str, str]:
    with pytest.raises(IoawareError) as error:
        call(*arguments)
    return type(error.value), error.value.what, error.value.remedy


def test_the_summary_of_measured_runs(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    quiet = Compared("k", "n=1", Verdict.SAME, "equal", None, "")
    slow = Compared("k", "n=2", Verdict.SAME, "equal", Verdict.WORSE, "9 %", 1.09)
    summarise_runs(Comparison((slow, quiet), ("k n=3",)), path)
    assert path.read_text().splitlines() == [
        "## Measured points&#58; WORSE, 1 of 2 failing",
        "",
        "- new&#58; k n=3",
        "",
        "| bytes are | time is | target | point | why of bytes | why of time |",
        "| --- | --- | --- | --- | --- | --- |",
        "| SAME | WORSE | k | n=2 | equal | 9 % |",
        "| SAME |  | k | n=1 | equal |  |",
        "",
    ]


def test_a_summary_is_appended_within_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.md"
    path.write_text("é", encoding="utf-8")
    write_summary(path, "größer", [], Table((), [], 0))
    assert path.read_bytes().decode("utf-8") == "é## größer\n\n\n"
    path.write_bytes(b" " * (MOST_BYTES - LAST_LINE - 10))
    write_summary(path, "0123", [], Table((), [], 0))
    assert path.read_bytes().endswith(b" ## 0123\n\n\n")
    path.write_bytes(b" " * (MOST_BYTES - LAST_LINE - 7))
    write_summary(path, "0123", [], Table((), [], 0))
    assert path.read_bytes().endswith(b"  ")
    assert raised(write_summary, tmp_path, "x", [], Table((), [], 0))[1].startswith(f"{tmp_path}")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert (job_summary_file(None), job_summary_file(path)) == (None, path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "job.md")
    assert (job_summary_file(None), job_summary_file(path)) == (Path("job.md"), path)


def test_rows_that_do_not_fit_are_counted() -> None:
    rows = [(f"row {at}", "1") for at in range(100)]
    text = summary("t", ["line"], Table(("name", "bytes"), rows, 50), 200 + LAST_LINE)
    lines = text.splitlines()
    assert lines[:6] == ["## t", "", "- line", "", "| name | bytes |", "| --- | ---: |"]
    shown = sum(line.startswith("| row") for line in lines)
    assert 0 < shown < 50
    assert lines[-2] == f"{100 - shown} more rows are left out, {50 - shown} of them failing."
    assert summary("t", [], Table((), [], 0), LAST_LINE) == ""


def test_annotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [replace(ONE, path=str(tmp_path / "a.py"), line=at + 1, verdict="WORSE", message="a:b\nc%") for at in range(12)]
    found = list(error_annotations(many, tmp_path))
    assert found[0] == "::error file=a.py,line=1,title=WORSE%3A add::a:b%0Ac%25"
    assert found[9:] == ["::error title=memory traffic::3 more fail; the job summary lists them"]
    assert len(list(error_annotations(many[:10], tmp_path))) == 10
    bare = replace(ONE, target="", path="", verdict="WORSE", reason="why")
    assert list(error_annotations([bare, ONE], tmp_path)) == ["::error title=WORSE%3A t.py%3A%3Atest::why"]
    assert command("notice", "x") == "::notice::x"
    assert command("error", "x", line=3) == "::error::x"
    assert command("error", "x", file="f") == "::error file=f::x"
    assert command("error", "\n".join("ab" * LONGEST_LINE for _ in range(MOST_LINES + 1))).count("%0A") == MOST_LINES - 1
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    assert workspace_of(tmp_path) == tmp_path
    monkeypatch.setenv("GITHUB_WORKSPACE", "/checkout")
    assert workspace_of(tmp_path) == Path("/checkout")


def test_annotations_of_a_session_are_relative_to_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    report, failing = SessionReport(tmp_path, None, None), replace(ONE, path=str(tmp_path / "a.py"), verdict="WORSE")
    report.add(SimpleNamespace(nodeid=ONE.test, traffic_outcomes=[failing.to_dict(), ONE.to_dict()]))
    (line,) = report.annotations()
    assert line.startswith("::error file=a.py,line=3,")


def test_texts_are_cut_and_can_be_written_as_utf_8() -> None:
    """A file name, and so a message, may hold bytes that are no text."""
    found = replace(ONE, reason="no text: \udcff", message="é" * (MOST_TEXT + 1)).to_dict()
    assert (found["reason"], found["message"]) == ("no text: \\udcff", "é" * MOST_TEXT)
    assert outcome_of(found).reason == found["reason"]


def test_outcomes_that_are_damaged() -> None:
    whole = ONE.to_dict()
    assert outcome_of(whole) == ONE

    def why(value: object) -> str:
        with pytest.raises(ValueError) as error:  # noqa: PT011
            outcome_of(value)
        return str(error.value)

    assert why([]) == "an outcome is no object"
    assert why({"b" * 150: 1, "a" * 150: 1}) == f"an outcome has the fields {'a' * 150}, {'b' * 48}"
    assert why({**whole, "line": -1}) == "line is '-1'"
    assert why({**whole, "bytes": "1" * 50}) == f"bytes is '{'1' * 40}'"
    assert why({**whole, "line": None}) == "line is 'None'"
    assert why({**whole, "test": 3}) == "test is '3'"
    assert why({**whole, "verdict": "G" * 50}) == f"verdict is '{'G' * 40}'"
    assert outcome_of({**whole, "bytes": None, "compulsory": None}).vs_compulsory is None
    assert replace(ONE, compulsory=0).vs_compulsory is None
    assert replace(ONE, bytes=0).vs_compulsory == 0


def test_the_order_of_outcomes() -> None:
    far, near = replace(ONE, bytes=24, line=9), replace(ONE, line=9)
    unknown, red = replace(ONE, bytes=None), replace(ONE, verdict="WORSE", bytes=1)
    given = [near, ONE, far, unknown, red]
    assert worst_first(given) == [red, unknown, far, ONE, near]


def test_the_calls_of_a_test_that_ended() -> None:
    calls = Calls("t", "t.py", 1, [replace(ONE, verdict=OPEN, reason=""), replace(ONE, verdict=OPEN, reason="kept")])
    assert [one.reason for one in calls.finished()] == ["compared with nothing", "kept"]
    skipped = Calls("t", "t.py", 1, [replace(ONE, verdict=OPEN, reason="")], skipped=True)
    assert [one.reason for one in skipped.finished()] == [""]
    held = Calls("t", "t.py", 1, [replace(ONE)])
    assert held.finished() == [ONE]
    failed = Calls("t", "t.py", 1, [replace(ONE)], failure="\nBoom\nmore")
    other = Outcome("t", path="t.py", line=1, verdict=FAILED, reason="Boom", message="\nBoom\nmore")
    assert failed.finished() == [ONE, other]
    assert Calls("t", "t.py", 1, skipped=True).finished() == [Outcome("t", path="t.py", line=1, verdict=SKIPPED)]
    assert Calls("t", "t.py", 1).finished() == []
    assert [name for name, _ in properties([ONE, replace(ONE, bytes=None, point="")])] == [
        *(f"traffic.{name}" for name in ("target", "verdict", "reads", "writes", "point", "bytes", "vs_compulsory")),
        *(f"traffic.2.{name}" for name in ("target", "verdict", "reads", "writes")),
    ]


@pytest.mark.parametrize(
    ("outcomes", "code", "title"),
    [
        ([ONE], 0, "Memory traffic&#58; 1 call, none failing"),
        ([ONE, ONE], 0, "Memory traffic&#58; 2 calls, none failing"),
        ([replace(ONE, verdict="WORSE")], 1, "Memory traffic&#58; 1 of 1 call fails"),
        ([replace(ONE, verdict="WORSE")] * 2, 1, "Memory traffic&#58; 2 of 2 calls fail"),
        ([ONE], 3, "Memory traffic&#58; the run failed with exit code 3; 1 call, none of them failing"),
    ],
)
def test_titles_of_a_session(tmp_path: Path, outcomes: list[Outcome], code: int, title: str) -> None:
    class Report:
        nodeid = "t"
        traffic_outcomes = [one.to_dict() for one in outcomes]  # noqa: RUF012

    path = tmp_path / "summary.md"
    session = SessionReport(tmp_path, path, None)
    session.add(object())
    session.add(Report())
    session.write(code, ["a problem"], always=False)
    lines = path.read_text().splitlines()
    assert (lines[0], lines[2]) == (f"## {title}", "- a problem")
    assert lines[4] == "| verdict | test | call | reads | writes | bytes | vs compulsory | why |"
    cells = lines[6].split(" | ")
    assert cells[-3:] == ["12", "1×", "equal |"]


def test_results_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "traffic.json"
    monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef")
    write_results(path, tmp_path, [replace(ONE, reason="größer")], 3)
    found = read_results(path)
    assert (found.commit, found.exit_code, found.outcomes[0].reason) == ("0123456789abcdef", 3, "größer")
    assert abs((found.time - datetime.now(UTC)).total_seconds()) < 3600
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n}\n")
    assert json.loads(text)["triton"] == installed_version("triton")
    monkeypatch.setenv("GITHUB_SHA", "no commit")
    write_results(path, tmp_path, [], 0)
    assert read_results(path).commit == ""
    monkeypatch.delenv("GITHUB_SHA")
    write_results(path, tmp_path, [], 0)
    assert read_results(path).commit == ""
    not_finite: Any = [replace(ONE, bytes=float("nan"))]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_results(path, tmp_path, not_finite, 0)


DOCUMENT = {
    "schema": 1, "kind": "traffic results", "time": "2026-11-01T00:00:00+00:00", "commit": "0" * 40, "triton": "3",
    "exit_code": 0, "outcomes": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": 2}, "schema 2 of kind 'traffic results'"), ({"schema": True}, "schema True of kind 'traffic results'"),
        ({"kind": "k" * 50}, f"schema 1 of kind '{'k' * 40}'"), ({"exit_code": "0"}, OTHER_TYPE),
        ({"outcomes": {}}, OTHER_TYPE), ({"time": 3}, OTHER_TYPE),
        ({"commit": "x" * 70}, f"commit is '{'x' * 60}'"), ({"commit": 3}, "commit is '3'"),
        ({"time": "2026-11-01T00:00:00"}, "time '2026-11-01T00:00:00' has no zone"),
    ],
)  # fmt: skip
def test_results_that_are_damaged(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    path = tmp_path / "traffic.json"
    path.write_text(json.dumps(DOCUMENT | change))
    what = f"{path}: not results of the gate ({why})"
    assert raised(read_results, path) == (DataError, what, "Write them: pytest --traffic-results FILE.")
    path.write_text("[]")
    assert raised(read_results, path)[1] == f"{path}: not results of the gate (no object)"


def test_the_lines_of_a_history(tmp_path: Path) -> None:
    red = [
        replace(ONE, verdict="GROWTH", bytes=5),
        replace(ONE, bytes=9),
        replace(ONE, target="", verdict="SKIPPED", bytes=None),
    ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(DOCUMENT | {"outcomes": [one.to_dict() for one in red]}))
    (run,) = runs = read_runs([path])
    assert run.label == RunLabel("run", "0" * 12, "2026-11-01 00:00+00:00")
    assert history_lines(runs) == [
        HistoryLine("add", "n=4", "requested, gate", (9,), "GROWTH", fails=True),
        HistoryLine("t.py::test", "n=4", "requested, gate", (None,), "SKIPPED", fails=False),
    ]
    assert history_lines([]) == []


def test_stored_results_are_runs(tmp_path: Path) -> None:
    from ioaware.sweep.store import Store

    one = Result("measure", "k", {"n": 2}, Traffic(8, 1), status="failed", environment={"commit": "abc"})
    path = tmp_path / "run.jsonl"
    write_jsonl(path, [one, replace(one, params={"n": 3}, status="throttled", environment=None)])
    (run,) = runs = read_runs([path])
    assert run.label == RunLabel("run", "abc")
    place = "requested, measure"
    assert [(line.place, line.bytes, line.verdict, line.fails) for line in history_lines(runs)] == [
        (place, (9,), "failed", True), (place, (9,), "throttled", False),
    ]  # fmt: skip
    write_jsonl(path, [one, replace(one, params={"n": 3}, environment={"commit": "def"})])
    assert read_runs([path])[0].label == RunLabel("run", "")
    with Store(tmp_path / "run.db"):
        pass
    assert read_runs([tmp_path / "run.db"])[0].bytes == {}
    none = tmp_path / "none.db"
    remedy = "Name results of pytest --traffic-results, stores, or JSONL of export."
    assert raised(read_runs, [none]) == (UsageError, f"there is no file {none}", remedy)
