"""What a run of pytest leaves to CI, also where the gate is red.

This is the summary, annotations, JUnit properties and results.
"""

from __future__ import annotations

import html
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest

from ioaware.errors import DataError
from ioaware.gate.ci import session_report
from ioaware.gate.ci.outcome import Outcome, outcome_of
from ioaware.gate.ci.results_file import read_results
from ioaware.gate.verdict import Verdict
from tests.gate.test_pytest_plugin import GROWS, MORE, gated, repository  # noqa: F401 (fixtures)
from tests.support.gate_runs import Ran, Repository


def run(repository: Repository, *arguments: str) -> Ran:  # noqa: F811
    return repository.pytest("--traffic-summary=summary.md", "--traffic-results=run.json", "--junitxml=junit.xml", *arguments)


def properties(repository: Repository) -> dict[str, str]:  # noqa: F811
    tree = ElementTree.parse(repository.root / "junit.xml")  # noqa: S314 (written by this test)
    return {one.attrib["name"]: one.attrib["value"] for one in tree.iter("property")}


def test_green_then_red(gated: Repository, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(gated.root))
    monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    green = run(gated)
    assert (green.code, "::error" in green.output) == (0, False)
    found = properties(gated)
    assert (found["traffic.verdict"], found["traffic.bytes"], found["traffic.vs_compulsory"]) == ("SAME", "50331648", "1.5")
    assert (found["traffic.reads"], found["traffic.writes"]) == ("4*cols*rows", "2*cols*rows")
    assert "Memory traffic: 1 call, none failing" in html.unescape((gated.root / "summary.md").read_text())

    gated.change(gated.kernel, *MORE)
    red = run(gated)
    line = gated.test.read_text().partition("assert traffic(")[0].count("\n") + 1
    annotation = next(text for text in red.output.splitlines() if text.startswith("::error"))
    assert annotation.startswith(f"::error file=gate_scale.py,line={line},title=WORSE%3A scale%3Ascale::WORSE: scale:scale")
    assert "(+16,777,216, +50.0 %25)%0A" in annotation
    assert properties(gated)["traffic.verdict"] == "WORSE"
    text = html.unescape((gated.root / "summary.md").read_text())
    assert "Memory traffic: 1 of 1 call fails" in text
    assert "| WORSE | gate_scale.py::test_scale | scale:scale | 6*cols*rows | 2*cols*rows | 67,108,864 | 1.33× |" in text
    saved = read_results(gated.root / "run.json")
    assert (saved.commit, saved.exit_code, [one.verdict for one in saved.outcomes]) == ("0123456789abcdef", 1, ["WORSE"])


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("    assert traffic(scale, x, w) == traffic.snapshot()", "MISSING"),
        ("    traffic(scale, x, w)", "OPEN"),
        ("    raise ValueError('unrelated')", "FAILED"),
        ("    import pytest; pytest.skip('no time')", "SKIPPED"),
        ("    traffic.tensor('a', dtype=3, b=4)", "FAILED"),
    ],
)
def test_whatever_ends_a_test_is_a_row(repository: Repository, body: str, verdict: str) -> None:  # noqa: F811
    text = repository.test.read_text()
    repository.test.write_text(text[: text.rindex("    assert")] + body + "\n")
    ran = run(repository)
    saved = read_results(repository.root / "run.json")
    assert ([one.verdict for one in saved.outcomes], ran.code == 0) == ([verdict], verdict == "SKIPPED")


def test_an_unwritable_summary_is_a_failure(gated: Repository) -> None:  # noqa: F811
    ran = gated.pytest("--traffic-summary=missing/summary.md")
    assert (ran.code, "missing/summary.md: cannot be written" in ran.output) == (1, True)


def test_only_the_tests_of_the_gate(gated: Repository) -> None:  # noqa: F811
    gated.test.write_text(gated.test.read_text() + "\n\ndef test_red():\n    assert False\n")
    assert gated.pytest().code == 1
    assert gated.pytest("--traffic-only").code == 0
    gated.test.write_text("def test_red():\n    assert False\n")
    assert gated.pytest("--traffic-only").code == 5


def test_no_damaged_results_are_read(tmp_path: Path) -> None:
    one = Outcome("t", "k:k", "t.py", 3, verdict="SAME", bytes=10).to_dict()
    document = {"schema": 1, "kind": "traffic results", "time": "2026-11-01T00:00:00+00:00", "commit": "", "triton": "3"}
    document |= {"exit_code": 0, "outcomes": [one]}
    whole = json.dumps(document)
    path = tmp_path / "run.json"
    path.write_text(whole)
    assert read_results(path).outcomes == (outcome_of(one),)
    changes = [("schema", 2), ("schema", True), ("kind", "x"), ("time", "now"), ("time", "2026-11-01"), ("commit", "HEAD")]
    changes += [("exit_code", "0"), ("outcomes", {}), ("outcomes", [3]), ("outcomes", [{}])]
    changes += [("outcomes", [one | {name: value}]) for name in ("bytes", "line") for value in (True, -1, 1.5, "3")]
    changes += [("outcomes", [one | {"verdict": "FINE"}]), ("outcomes", [one | {"more": 1}])]
    for name, value in changes:
        path.write_text(json.dumps(document | {name: value}))
        with pytest.raises(DataError):
            read_results(path)
    for end in range(0, len(whole), 7):
        path.write_text(whole[:end])
        with pytest.raises(DataError):
            read_results(path)


def test_what_a_report_carries_is_plain_text() -> None:
    """pytest-xdist passes on exact types only: no text of an enumeration."""
    outcome = Outcome("t")
    outcome.judge(Verdict.WORSE, "more")
    assert {type(value) for pair in session_report.properties([outcome]) for value in pair} == {str}
    assert type(outcome.to_dict()["verdict"]) is str


@pytest.mark.parametrize(
    ("first", "blocked"),
    [(Verdict.WORSE, {"t"}), (Verdict.GROWTH, {"t"}), (Verdict.UNSURE, set[str]()), (Verdict.SAME, set[str]())],
)
def test_more_bytes_stay_more_where_a_test_runs_again(tmp_path: Path, first: Verdict, blocked: set[str]) -> None:
    """A proof that could not be had in time may be had at another run."""
    shown = session_report.SessionReport(tmp_path, None, None)
    for verdict in (first, Verdict.SAME):
        outcome = Outcome("t")
        outcome.judge(verdict, "")
        shown.add(SimpleNamespace(nodeid="t", **{session_report.ATTACHED: [outcome.to_dict()]}))
    assert [one.verdict for one in shown.outcomes] == ["SAME"]
    assert shown.blocked == blocked
