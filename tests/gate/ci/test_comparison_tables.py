"""The summaries of `compare` and `diff` are written where they are wanted.

The failing rows come first.
"""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
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
    assert [line.split(" | ")[0] for line in found if line.startswith(("| WORSE", "| SAME"))] == ["| WORSE", *["| SAME"] * 4]
    assert "1,000,000 -> 1,050,000" in found[4]


def test_two_versions_into_a_named_file(tmp_path: Path, summary: Path) -> None:
    for name, made in (("old", document()), ("new", document("16*n", 16_000, ir_hash="ba9876543210"))):
        (tmp_path / f"{name}.json").write_text(json.dumps(made))
    named = tmp_path / "named.md"
    assert run(["diff", str(tmp_path / "old.json"), str(tmp_path / "new.json"), "--summary", str(named)], Settings()) == 1
    found = lines(named)
    assert found[0] == "## Two versions: WORSE, 1 of 1 failing"
    assert any(line.startswith("| WORSE | add.py:add | reads | 8,000 | 16,000 |") for line in found[4:8])
    assert not summary.exists()
