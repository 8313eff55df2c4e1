"""The README tells the truth: its commands print what it shows, its Python runs, its links lead somewhere."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ioaware.cli.main import VERBS, run
from ioaware.cli.options import Settings

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = re.findall(r"```python (\S+)\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"```console\n\$ (ioaware [^\n]+)\n(.*?)```", README, re.DOTALL)
PROSE = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
SESSIONS = re.findall(r"```pycon\n(.*?)```", README, re.DOTALL)
VARIES = ("check", "registers")
"""How lines start that differ between versions of torch and Triton: a rounding error, what the compiler allocates."""


def stable(output: str) -> list[str]:
    return [line for line in output.splitlines() if not line.startswith(VARIES)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the README's files are."""
    for name, code in FILES:
        (tmp_path / name).write_text(code)
    return tmp_path


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_is_shown(
    command: str, shown: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert run(command.split()[1:], Settings()) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert stable(said.out) == stable(shown)


def test_a_process_prints_it_too(folder: Path) -> None:
    """One that finds a file where it was started."""
    ((command, shown),) = ((command, shown) for command, shown in COMMANDS if "explain" in command)
    arguments = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert stable(done.stdout) == stable(shown)


@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_prints_what_is_shown(session: str) -> None:
    test = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_there_is_something_to_test() -> None:
    assert len(COMMANDS) >= 3
    assert len(SESSIONS) == 1
    assert len(FILES) == 1
    assert all(shown.strip() for _, shown in COMMANDS)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", PROSE))))
def test_a_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_table(verb: str) -> None:
    assert re.search(rf"^\| .*`{verb}\b", README, re.MULTILINE)


def test_the_speeds_are_those_of_the_recorded_race() -> None:
    from ioaware.bench.goals import goals
    from ioaware.sweep.claim_evidence import recorded_race

    judged = goals(recorded_race())
    assert judged
    for goal in judged:
        row = f"| {goal.name} | {goal.value:.3f} | {goal.at_least:.2f} | {goal.points} | {goal.worst} |"
        assert row in README
