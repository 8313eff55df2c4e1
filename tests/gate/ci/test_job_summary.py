"""The job summary: the worst rows first, within its size.

It stays within its size whatever the number of rows, and nothing in it is markup.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from ioaware.errors import WriteError
from ioaware.gate.ci.job_summary import CELL, MOST_BYTES, Table, escaped, job_summary_file, summary, write_summary
from ioaware.gate.ci.outcome import Outcome, worst_first
from ioaware.gate.ci.session_report import SessionReport
from tests.support.hostile_texts import PAYLOADS

REFERENCE = re.compile(r"&#[0-9]+;")
PLAIN = re.compile(r"[A-Za-z0-9 ,()+=%.;\x80-\U0010ffff-]*")


def test_a_hundred_thousand_rows_fit() -> None:
    rows = [("WORSE" if number < 90_000 else "SAME", f"test_{number}", "|" * 20) for number in range(100_000)]
    assert MOST_BYTES == 900 * 1024
    text = summary("Traffic", ["line"], Table(("verdict", "test", "why"), rows, 90_000))
    shown = text.count("\n| WORSE ")
    assert MOST_BYTES - 1000 < len(text.encode()) <= MOST_BYTES
    assert text.endswith(f"{100_000 - shown:,} more rows are left out, {90_000 - shown:,} of them failing.\n\n")


def test_wide_characters_count_as_their_bytes() -> None:
    text = summary("Traffic", ["汉" * 300] * 1200, Table(("a",), [("汉" * 300,)] * 1200, 0))
    assert len(text.encode()) <= MOST_BYTES


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_text_is_markup(payload: str) -> None:
    text = escaped(payload)
    assert PLAIN.fullmatch(REFERENCE.sub("", text))  # no sign of Markdown or HTML, no line end
    document = summary(payload, [payload], Table(("why",), [(payload,)], 1))
    assert len(document.splitlines()) == 8
    shown = document.splitlines()[-2]
    assert (shown.count("|"), "<" in shown, "`" in shown) == (2, False, False)


def test_references_are_the_text_itself() -> None:
    assert html.unescape(escaped("4*cols|rows `x` <b> a.b 1.5 www.x.org")) == "4*cols|rows `x` <b> a.b 1.5 www.x.org"


def test_a_summary_is_appended_within_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_bytes(b"x" * (MOST_BYTES - 2000))
    write_summary(path, "Traffic", [], Table(("a",), [("b" * 90,)] * 100, 0))
    assert MOST_BYTES - 2000 < path.stat().st_size <= MOST_BYTES
    assert "more rows are left out" in path.read_text()
    for _ in range(50):
        write_summary(path, "Traffic", [], Table(("a",), [("b",)], 0))
    assert path.stat().st_size <= MOST_BYTES
    with pytest.raises(WriteError):
        write_summary(tmp_path, "Traffic", [], Table((), (), 0))


def test_the_file_of_the_job_unless_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert job_summary_file(None) is None
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "a"))
    assert job_summary_file(None) == tmp_path / "a"
    assert job_summary_file(tmp_path / "b") == tmp_path / "b"


def test_the_worst_is_first() -> None:
    given = [
        Outcome("fine", verdict="SAME", bytes=10, compulsory=10),
        Outcome("far", verdict="SAME", bytes=30, compulsory=10),
        Outcome("unknown", verdict="SAME"),
        Outcome("unsure", verdict="UNSURE"),
        Outcome("another growth", verdict="GROWTH"),
        Outcome("more", verdict="WORSE", bytes=10, compulsory=10),
        Outcome("most", verdict="WORSE", bytes=20, compulsory=10),
        Outcome("invented", verdict="FINE"),
    ]
    order = ["invented", "most", "more", "another growth", "unsure", "unknown", "far", "fine"]
    assert [one.test for one in worst_first(given)] == order
    assert [one.test for one in given if not one.blocks] == ["fine", "far", "unknown"]


@pytest.mark.parametrize(
    ("verdict", "code", "title"),
    [
        ("WORSE", 1, "1 of 1 call fails"),
        ("SAME", 0, "1 call, none failing"),
        ("SAME", 2, "the run failed with exit code 2"),
    ],
)
def test_the_title_never_hides_a_failure(tmp_path: Path, verdict: str, code: int, title: str) -> None:
    report = SessionReport(tmp_path, tmp_path / "summary.md", None)
    report.add(type("Report", (), {"nodeid": "t", "traffic_outcomes": [Outcome("t", verdict=verdict).to_dict()]}))
    report.write(code, [], always=False)
    assert title in html.unescape((tmp_path / "summary.md").read_text())


def test_a_long_cell_is_cut() -> None:
    assert escaped("a" * 3 * CELL).startswith("a" * CELL + "…")
