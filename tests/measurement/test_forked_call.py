"""Calls in a forked child: an abnormal end is one error sentence.

Exit codes are passed on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import ctypes, os, sys, time, threading
from ioaware.errors import UsageError
from ioaware.measurement.forked_call import Limits, continue_in_child, default_memory_bytes
try:
    code = continue_in_child("mine.py:f", Limits({seconds}, {memory}))
except UsageError as error:
    print(error.what, "|", error.remedy)
    sys.exit(error.exit_code)
if code is not None:
    print("parent has", code)
    sys.exit(code)
"""


def run(child: str, seconds: float = 20, memory: str = "default_memory_bytes()") -> tuple[int, str]:
    script = BEGIN.format(seconds=seconds, memory=memory) + child
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("code", [0, 1, 2, 3, 70])
def test_an_exit_code_is_passed_on(code: int) -> None:
    assert run(f"print('child'); sys.exit({code})") == (code, f"child\nparent has {code}\n")


@pytest.mark.parametrize(
    ("child", "sentence"),
    [
        ("os._exit(0)", "mine.py:f ended its process with exit code 0"),
        ("os._exit(3)", "mine.py:f ended its process with exit code 3"),
        ("os.abort()", "mine.py:f was killed by SIGABRT"),
        ("ctypes.string_at(8)", "mine.py:f was killed by SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "mine.py:f was killed by SIGKILL"),
    ],
)
def test_an_abnormal_end_is_one_sentence(child: str, sentence: str) -> None:
    code, printed = run(child)
    assert (code, printed.startswith(sentence)) == (2, True)


def test_limits_of_time_and_memory() -> None:
    code, printed = run("time.sleep(60)", seconds=0.3)
    assert code == 2
    assert "ran for more than 0.3 s and was stopped" in printed
    assert "--timeout" in printed
    code, printed = run("held = [b'x' * 2**20 for _ in range(1000)]; time.sleep(60)", memory="2**29")
    assert code == 2
    assert "used more than 0.5 GiB of memory and was stopped" in printed


@pytest.mark.parametrize("end", ["", "os._exit(1)", "os.kill(os.getpid(), 9)", "time.sleep(60)"])
def test_temporary_files_of_the_child_are_removed(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = "import tempfile; open(tempfile.mkdtemp() + '/file', 'w').close(); print(tempfile.gettempdir(), flush=True); "
    _, printed = run(made + end, seconds=1)
    assert printed.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_terminated_parent_removes_the_temporary_files_of_its_child(tmp_path: Path) -> None:
    handler = "import signal; signal.signal(15, lambda *_: sys.exit(143))"
    child = "import tempfile; tempfile.mkdtemp(); print('made', flush=True); time.sleep(60)"
    script = f"import sys; {handler}\n" + BEGIN.format(seconds=60, memory="2**40") + child
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"made\n"
        parent.terminate()
        assert parent.wait(60) == 143
    assert not list(tmp_path.iterdir())


def test_processes_of_the_child_are_killed() -> None:
    code, printed = run("import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True); os._exit(1)")
    pid = int(printed.split()[0])
    assert code == 2
    with pytest.raises(ProcessLookupError):
        _signal_zero(pid)


def _signal_zero(pid: int) -> None:
    import os
    import time

    for _ in range(50):
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                raise ProcessLookupError
        time.sleep(0.1)
