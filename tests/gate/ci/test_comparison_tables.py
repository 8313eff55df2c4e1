"""The summaries of `compare`, `diff` and `check`, where they are wanted.

The failing rows come first.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.gate.budgets import Judgement
from ioaware.gate.ci import comparison_tables
from ioaware.gate.ci.comparison_tables import summarise_budgets, summarise_runs, summarise_versions
from ioaware.gate.differences import differences
from ioaware.gate.measured.comparison import compare_runs
from ioaware.gate.row import row_of
from ioaware.gate.verdict import Verdict
from ioaware.result_file import write_jsonl
from tests.support.gate_rows import document
from tests.support.measured_runs import point


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def lines(path: Path) -> list[str]:
    return html.unescape(path.read_text()).splitlines()


def test_measured_runs(tmp_path: Path, summary: Path) -> None:
    write_jsonl(tmp_path / "old.jsonl", [point(number) for number in range(5)])
    write_jsonl(tmp_path / "new.jsonl", [point(number, read_bytes=1_000_000 + 50_000 * (number == 3)) for number in range(5)])
    assert run(["compare", str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")], Settings()) == 1
    found = lines(summary)
    assert found[0] == "## Measured points: WORSE, 1 of 5 failing"
    assert found[2] == "| bytes are | time is | target | point | why of bytes | why of time |"
    assert [line.split(" | ")[0] for line in found if line.startswith(("| WORSE", "| SAME"))] == ["| WORSE", *["| SAME"] * 4]
    assert "1,000,000 -> 1,050,000" in found[4]


def test_two_versions_into_a_named_file(tmp_path: Path, summary: Path) -> None:
    for name, made in (("old", document()), ("new", document("16*n", 16_000, ir_hash="ba9876543210"))):
        (tmp_path / f"{name}.json").write_text(json.dumps(made))
    named = tmp_path / "named.md"
    assert run(["diff", str(tmp_path / "old.json"), str(tmp_path / "new.json"), "--summary", str(named)], Settings()) == 1
    found = lines(named)
    assert found[0] == "## Two versions: WORSE, 1 of 1 failing"
    assert found[4] == "| verdict | target | what | old | new | why |"
    assert any(line.startswith("| WORSE | add.py:add | reads | 8,000 | 16,000 |") for line in found[4:8])
    assert not summary.exists()


def test_rows_of_two_versions_the_failing_first(tmp_path: Path, summary: Path) -> None:
    def rows(**new: Any) -> list[str]:
        for name, made in (("old", document(registers=16)), ("new", document(**new, ir_hash="ba9876543210"))):
            (tmp_path / f"{name}.json").write_text(json.dumps(made))
        summary.unlink(missing_ok=True)
        run(["diff", str(tmp_path / "old.json"), str(tmp_path / "new.json")], Settings())
        cells = [line.split("|") for line in lines(summary) if line.startswith("| ")][2:]
        return [f"{cell[1].strip()} {cell[3].strip()}".strip() for cell in cells]

    assert rows(registers=40, local_bytes=8)[0] == "WORSE spills"
    assert rows(registers=40, local_bytes=8)[-1] == "registers"  # shown, and gated nowhere


def test_budgets_the_worst_first(tmp_path: Path, summary: Path) -> None:
    found = [
        Judgement("max_reads", Verdict.SAME, "8 B"),
        Judgement("max_spills", Verdict.INCOMPARABLE, "not known"),
        Judgement("max_bytes", Verdict.WORSE, "9 B | 1 too many"),
    ]
    summarise_budgets("add.py:add", "n=2", found, None)
    assert lines(summary)[0] == "## Budgets of add.py:add: 2 of 3 failing"
    assert lines(summary)[2] == "| verdict | target | point | budget | why |"
    assert lines(summary)[4] == "| WORSE | add.py:add | n=2 | max_bytes | 9 B | 1 too many |"
    assert [line.split(" | ")[3] for line in lines(summary)[4:7]] == ["max_bytes", "max_spills", "max_reads"]
    assert "9 B &#124; 1" in summary.read_text()
    summarise_budgets("add.py:add", "n=2", found[:1], tmp_path / "named.md")
    assert lines(tmp_path / "named.md")[0] == "## Budgets of add.py:add: 0 of 1 failing"


def test_the_failing_rows_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A summary that does not hold all rows says how many of those left out fail."""
    blocking: list[int] = []
    monkeypatch.setattr(comparison_tables, "write_summary", lambda path, title, rest, table: blocking.append(table.blocking))
    more = {"ir_hash": "ba9876543210", "local_bytes": 8, "registers": 40}
    old, new = (row_of(made, "row") for made in (document(), document("16*n", 16_000, **more)))
    summarise_versions(differences([old], [new]), tmp_path / "a.md")
    summarise_versions(differences([old], [old]), tmp_path / "a.md")
    summarise_budgets("k", "n=1", [Judgement("max_reads", Verdict.WORSE, "")] * 2, tmp_path / "a.md")
    summarise_runs(compare_runs([point(1)], [point(1, read_bytes=2_000_000)]), tmp_path / "a.md")
    assert blocking == [3, 0, 2, 1]  # reads, their sectors and spills; registers are shown only
