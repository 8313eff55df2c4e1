"""Fifty payloads in every name of the gate come out escaped: terminal, JSON, CSV.

Markdown and annotations are in `ci/`.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.gate.budgets import Judgement
from ioaware.gate.repository.coverage import Coverage
from ioaware.gate.verdict import Verdict
from ioaware.result import Launch, Result, Traffic
from ioaware.result_file import write_jsonl
from ioaware.sweep.export import write_csv
from tests.support.gate_rows import document
from tests.support.hostile_texts import PAYLOADS
from tests.support.measured_runs import point

LONGEST = 1000
"""What a terminal and CSV show of a text of a million characters is as long.

The others are short.
"""
SHORT = [payload for payload in PAYLOADS if len(payload) < LONGEST]
TEXTS = [payload for payload in SHORT if "\ud800" not in payload]
"""A file of UTF-8 holds no half of a character."""
INVISIBLE = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")


def test_the_corpus_has_each_kind() -> None:
    assert len(set(PAYLOADS)) == 50
    for sign in (
        "<script",
        "::error",
        "%0A",
        "=cmd",
        "+1",
        "@SUM",
        "\t-1",
        "|",
        "`",
        "\x1b",
        "\x00",
        "\u202e",
        "\u200b",
        "\r\n",
    ):
        assert any(sign in payload for payload in PAYLOADS), sign
    assert max(map(len, PAYLOADS)) == 10**6


def shown(text: str) -> list[str]:
    """Return the characters of a terminal's output that move, hide or reorder text.

    Line feeds are not included.
    """
    return [one for one in text if one != "\n" and unicodedata.category(one) in INVISIBLE]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments), Settings())
    out, err = capsys.readouterr()
    return code, out, err


def test_diff_in_a_terminal_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = "".join(TEXTS)
    found = document()
    found |= {"target": every, "params": {"n": 1000, **{one: one for one in TEXTS}}, "conditions": TEXTS, "notes": TEXTS}
    found["requested"] = found["requested"] | {"read_formula": every}
    found["environment"] = {"triton": every, "compiled_for": every}
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(found))
    new.write_text(json.dumps({**found, "requested": found["requested"] | {"read_formula": "4*n"}}))
    code, out, err = printed(capsys, "diff", str(old), str(new))
    assert (code, shown(out), shown(err)) == (3, [], [])
    code, out, _ = printed(capsys, "diff", str(old), str(new), "--json")
    assert (code, out.isascii(), json.loads(out)["verdict"]) == (3, True, "INCOMPARABLE")
    old.write_text(json.dumps({**found, "target": "\ud800"}))
    assert printed(capsys, "diff", str(old), str(new))[0] == 6  # half a character is no text


def measured(payload: str, more: int = 0) -> Result:
    made = point(read_bytes=1_000_000 + more)
    environment = {**(made.environment or {}), payload: payload}
    return replace(made, target=payload, params={payload: payload}, notes=(payload,), environment=environment)


def test_compare_in_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, more in (("old", 0), ("new", 1)):
        write_jsonl(tmp_path / f"{name}.jsonl", [measured(payload, more) for payload in TEXTS])
    code, out, err = printed(capsys, "compare", str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl"))
    assert (code, shown(out), shown(err)) == (1, [], [])
    (tmp_path / "less.jsonl").write_text((tmp_path / "new.jsonl").read_text().partition("\n")[2])
    code, out, err = printed(capsys, "compare", str(tmp_path / "old.jsonl"), str(tmp_path / "less.jsonl"))
    assert (code, shown(out), shown(err)) == (4, [], [])


def test_check_and_coverage_in_a_terminal() -> None:
    from rich.console import Console

    from ioaware.cli.commands.gate_verbs import budget_check, coverage_report

    def of(parts: Iterator[Any]) -> str:
        buffer = io.StringIO()
        console = Console(file=buffer, markup=False, highlight=False, emoji=False, width=1000, force_terminal=False)
        for part in parts:
            console.print(part)
        return buffer.getvalue()

    for payload in SHORT:
        derived: Any = SimpleNamespace(target=payload, params={payload: payload})
        judged = [Judgement(payload, Verdict.WORSE, payload)]
        found = Coverage(((payload, "exempt", payload),), (payload,))
        assert shown(of(budget_check._text(derived, judged)) + of(coverage_report._text(found))) == [], payload


def test_names_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A file and an option that do not exist are named in the error, and not raw."""
    for payload in TEXTS:  # an argument holds no NUL, either
        file = f"{payload}.json"  # of a target, a process would be started
        for arguments in (
            ["diff", file, file],
            ["compare", payload, payload],
            ["coverage", payload],
            ["check", f"--{payload}"],
        ):
            code, out, err = printed(capsys, *arguments)
            assert (code in (2, 4, 5, 6), shown(out), shown(err), "Traceback" in err) == (True, [], [], False), arguments


def rows(payloads: Sequence[str]) -> list[Result]:
    launches = (Launch("k", notes=("n",)),)
    return [
        Result(
            "measure", one, {one: one}, Traffic(1, 1, read_formula=one), notes=(one,), launches=launches, environment={one: one}
        )
        for one in payloads
    ]


def test_csv_runs_no_formula() -> None:
    buffer = io.StringIO()
    write_csv(rows(TEXTS), buffer)
    cells = [cell for row in csv.reader(io.StringIO(buffer.getvalue(), newline="")) for cell in row]
    assert len(cells) > len(TEXTS) * 5
    assert [cell[:40] for cell in cells if cell.strip().startswith(("=", "+", "-", "@"))] == []
