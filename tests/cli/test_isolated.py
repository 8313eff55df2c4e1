"""Verbs survive a user's code.

It calls `os._exit`, sends signals, exceeds limits, and raises exceptions past every handler.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
import ctypes, os, time

class Stop(BaseException):
    pass

def leaves():
    os._exit(0)

def crashes():
    return lambda: ctypes.string_at(8)

def stops():
    raise Stop("enough")

def fails():
    raise ValueError
"""


def run_verb(tmp_path: Path, verb: str, function: str, *options: str) -> tuple[int, str]:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    command = [sys.executable, "-m", "ioaware", verb, f"{path}:{function}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert not done.stdout
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("verb", "function", "sentence"),
    [
        ("trace", "crashes", "crashes was killed by SIGSEGV at mine.py:11"),
        ("derive", "leaves", "leaves ended its process with exit code 0"),
        ("derive", "stops", "stops raised Stop at mine.py:14: enough"),
        ("trace", "stops", "stops raised Stop at mine.py:14: enough"),
    ],
)
def test_the_death_of_the_child_is_one_sentence_and_exit_code_2(
    tmp_path: Path, verb: str, function: str, sentence: str
) -> None:
    code, message = run_verb(tmp_path, verb, function)
    assert code == 2
    assert sentence in message
    assert len(message.splitlines()) == 2


@pytest.mark.parametrize(("verb", "function", "line"), [("trace", "crashes", 11), ("derive", "fails", 17)])
def test_v_shows_the_stack_of_a_failure(tmp_path: Path, verb: str, function: str, line: int) -> None:
    code, message = run_verb(tmp_path, verb, function, "-v")
    assert code == 2
    assert f'File "{tmp_path / "mine.py"}", line {line}' in message
    assert message.splitlines()[-2].endswith(f"at mine.py:{line}")


def test_a_limit_of_memory_and_of_time(tmp_path: Path) -> None:
    assert run_verb(tmp_path, "explain", "crashes", "--memory", "0.02") == (
        2,
        f"ioaware: {tmp_path / 'mine.py'}:crashes used more than 0.02 GiB of memory and was stopped\n"
        "  Choose smaller sizes, or a higher limit: --timeout SECONDS, --memory GIB.\n",
    )
    assert "ran for more than 0.1 s" in run_verb(tmp_path, "trace", "crashes", "--timeout", "0.1")[1]
