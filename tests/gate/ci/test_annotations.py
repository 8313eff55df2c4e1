"""Annotations are one line each, escaped, and no more than GitHub shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.gate.ci.annotations import LONGEST_LINE, MOST_OF_A_STEP, command, error_annotations
from ioaware.gate.ci.outcome import Outcome
from tests.support.hostile_texts import PAYLOADS


def failing(count: int) -> list[Outcome]:
    return [Outcome(f"t{number}", "k:k", "/repo/tests/t.py", number, verdict="WORSE", reason="more") for number in range(count)]


def test_a_command_escapes_what_github_reads() -> None:
    line = command("error", "50 %\nmore: a,b", file="a,b:c%.py", line=3, title="x::y")
    assert line == "::error file=a%2Cb%3Ac%25.py,line=3,title=x%3A%3Ay::50 %25%0Amore: a,b"


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_text_ends_a_command(payload: str) -> None:
    line = command("error", payload, file=payload, line=1, title=payload)
    assert len(line.splitlines()) == 1
    head, _, message = line.removeprefix("::error ").partition("::")
    assert [part.partition("=")[0] for part in head.split(",")] == ["file", "line", "title"]
    assert (":" in head, len(line) < 60_000, "\x1b" in line) == (False, True, False)
    assert message


def test_paths_are_relative_to_the_checkout() -> None:
    first = next(error_annotations(failing(1), Path("/repo")))
    assert first.startswith("::error file=tests/t.py,title=")  # line 0 is no line
    assert next(error_annotations(failing(2)[1:], Path("/other"))).startswith("::error file=/repo/tests/t.py,line=1,")


def test_no_more_than_github_shows() -> None:
    assert len(list(error_annotations(failing(MOST_OF_A_STEP), Path("/repo")))) == MOST_OF_A_STEP
    many = list(error_annotations(failing(500), Path("/repo")))
    assert len(many) == MOST_OF_A_STEP
    assert many[-1] == "::error title=memory traffic::491 more fail; the job summary lists them"


def test_what_passes_is_not_annotated() -> None:
    fine = [Outcome("t", verdict="SAME"), Outcome("t", verdict="SKIPPED"), Outcome("t", verdict="WRITTEN")]
    assert list(error_annotations(fine, Path("/repo"))) == []


def test_a_long_title_is_cut() -> None:
    assert command("error", "x", title="t" * 3 * LONGEST_LINE).startswith(f"::error title={'t' * LONGEST_LINE}…")
