"""When lines of source were written, as git knows it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.gate import failure
from ioaware.gate.repository import line_ages
from ioaware.gate.repository.line_ages import newest

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def commit(folder: Path, text: str, at: int) -> None:
    (folder / "k.py").write_text(text)
    for arguments in (("add", "k.py"), ("commit", "-qm", "one")):
        date = f"{at} +0000"
        environment = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "PATH": "/usr/bin:/bin"}
        subprocess.run([*GIT, *arguments], cwd=folder, env=environment, check=True)


@pytest.fixture
def file(tmp_path: Path) -> str:
    subprocess.run([*GIT, "init", "-q"], cwd=tmp_path, check=True)
    commit(tmp_path, "a\nb\nc\n", 1_600_000_000)
    commit(tmp_path, "a\nB\nc\n", 1_700_000_000)
    return str(tmp_path / "k.py")


def test_lines_of_commits_and_new_ones(file: str) -> None:
    lines = [(file, 1), (file, 2), (file, 3)]
    ages = line_ages.line_ages(lines)
    assert ages == {(file, 1): 1_600_000_000, (file, 2): 1_700_000_000, (file, 3): 1_600_000_000}
    assert newest(lines, ages) == {(file, 2)}
    Path(file).write_text("a\nB\nnew\n")
    assert newest(lines, line_ages.line_ages(lines)) == {(file, 3)}


def test_what_git_does_not_know(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert newest([(file, 1), (file, 3)], line_ages.line_ages([(file, 1), (file, 3)])) == set(), "written together"
    assert newest([], {}) == set()
    other = str(Path(file).with_name("unknown.py"))
    assert line_ages.line_ages([(file, 1), (other, 1)]) == {(file, 1): 1_600_000_000}
    assert newest([(file, 1), (other, 1)], {(file, 1): 5}) == set()
    assert line_ages.line_ages([(file, 99)]) == {}
    monkeypatch.setenv("PATH", "")
    assert line_ages.line_ages([(file, 1)]) == {}


def test_texts_that_git_does_not_decode(tmp_path: Path) -> None:
    """Neither a name with a number nor a byte that is no UTF-8 moves a line."""
    subprocess.run([*GIT, "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "k.py").write_bytes(b"a\n\xff\n")
    for arguments in (("add", "k.py"), ("commit", "-qm", "one two 3", "--author=a 5 <a@example.org>")):
        environment = {"GIT_COMMITTER_DATE": "1600000000 +0000", "PATH": "/usr/bin:/bin"}
        subprocess.run([*GIT, *arguments], cwd=tmp_path, env=environment, check=True)
    path = str(tmp_path / "k.py")
    assert line_ages.line_ages([(path, 1), (path, 2)]) == {(path, 1): 1_600_000_000, (path, 2): 1_600_000_000}


def test_git_has_a_time_limit(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def late(command: list[str], **options: Any) -> None:
        given.update(options)
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(line_ages.subprocess, "run", late)
    assert line_ages.line_ages([(file, 1)]) == {}
    assert given["timeout"] == line_ages.TIMEOUT_S


def test_the_line_that_was_written_last_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older line may move as many bytes as a newer one does more."""
    lines: list[Any] = [(SimpleNamespace(path="k.py"), SimpleNamespace(number=at), []) for at in (1, 2, 3)]
    ages: dict[Any, int] = {("k.py", 1): 7, ("k.py", 2): 9, ("k.py", 3): 7}
    monkeypatch.setattr(failure, "line_ages", lambda _: ages)
    with_newest: Any = failure._with_newest  # pyright: ignore[reportPrivateUsage]
    assert with_newest([lines[0]], lines) == [lines[1], lines[0]], "the newest line does not fit, and may be the reason"
    assert with_newest([lines[0], lines[1]], lines) == [lines[1], lines[0]]
    assert with_newest([lines[1]], lines) == [lines[1]]
    ages.clear()
    assert with_newest([lines[0]], lines) == [lines[0]]
