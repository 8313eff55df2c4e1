"""Commands in forks of a process that has imported torch, and in fresh ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.gate.setup import warm_python
from ioaware.gate.setup.warm_python import WarmPython

COMMANDS = {
    "says": "import sys\nprint('out', sys.argv[1:])\nprint('errors', file=sys.stderr)\n",
    "raises": "raise KeyError('a')\n",
    "exits": "raise SystemExit(3)\n",
    "exits_with_text": "raise SystemExit('why')\n",
    "dies": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "waits": "import time\nprint('first', flush=True)\ntime.sleep(600)\n",
    "leaves": "import subprocess, sys\nprint(subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL).pid)\n",
    "changes": "import sys\nprint(getattr(sys, 'changed', None))\nsys.changed = True\n",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    for name, text in COMMANDS.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def python(base: Path) -> Iterator[WarmPython]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_python, "WARM", ())
        with WarmPython(base) as made:
            yield made


def test_what_a_command_prints_and_how_it_ends(python: WarmPython, base: Path) -> None:
    done = python.run(["says", "a", "b"], base, 60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out ['a', 'b']\n", b"errors\n")
    codes = {name: python.run([name], base, 60).returncode for name in ("exits", "exits_with_text", "dies", "raises")}
    assert codes == {"exits": 3, "exits_with_text": 1, "dies": -9, "raises": 1}
    assert python.run(["raises"], base, 60).stderr.endswith(b"\nKeyError: 'a'\n")


def test_commands_do_not_see_one_another(python: WarmPython, base: Path) -> None:
    assert [python.run(["changes"], base, 60).stdout for _ in range(2)] == [b"None\n", b"None\n"]


def test_a_late_command_is_ended_with_what_it_printed(python: WarmPython, base: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired) as late:
        python.run(["waits"], base, 2)
    assert late.value.stdout == b"first\n"
    assert python.run(["says"], base, 60).returncode == 0


def test_what_a_command_started_ends_with_it(python: WarmPython, base: Path) -> None:
    left = int(python.run(["leaves"], base, 60).stdout)
    for _ in range(200):
        state = Path(f"/proc/{left}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"{left} runs still")


def test_without_its_server_a_fresh_python_runs(base: Path) -> None:
    with WarmPython(base) as python:
        python._server = subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        python._server.wait()
        assert python.run(["says"], base, 60).stdout == b"out []\n"


def test_a_late_command_has_its_limit_and_what_it_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(line: bytes) -> bytes:
        job = json.loads(line)
        Path(job["out"]).write_bytes(b"first")
        Path(job["errors"]).write_bytes(b"why")
        asked.append((job["arguments"], job["base"], job["limit_s"]))
        return b"null\n"

    asked: list[Any] = []
    with WarmPython(tmp_path) as python:
        monkeypatch.setattr(python, "_ask", late)
        with pytest.raises(subprocess.TimeoutExpired) as raised:
            python.run(["waits", "a"], tmp_path / "base", 2.5)
    assert asked == [(["waits", "a"], str(tmp_path / "base"), 2.5)]
    assert (raised.value.timeout, raised.value.stdout, raised.value.stderr) == (2.5, b"first", b"why")


def test_commands_run_in_the_root_with_the_server_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, Any]] = []
    nothing = lambda *_: None  # noqa: E731
    server = SimpleNamespace(stdin=BytesIO(), stdout=BytesIO(), kill=nothing, communicate=nothing)  # it has ended
    monkeypatch.setattr(
        warm_python.subprocess, "Popen", lambda command, **how: started.append(how | {"command": command}) or server
    )
    monkeypatch.setattr(
        warm_python.subprocess, "run", lambda command, **how: started.append(how | {"command": command}) or "ran"
    )
    with WarmPython(tmp_path) as python:
        assert python.run(["says", "a"], tmp_path / "base", 2.5) == "ran"
    assert [one["cwd"] for one in started] == [tmp_path, tmp_path]
    module = [sys.executable, "-P", "-m"]
    assert [one["command"] for one in started] == [[*module, warm_python.__name__], [*module, "says", "a"]]
    assert (started[0]["stdin"], started[0]["stdout"]) == (subprocess.PIPE, subprocess.PIPE)
    assert started[0]["env"] == warm_python.environment()
    assert (started[1]["timeout"], started[1]["capture_output"], started[1]["check"]) == (2.5, True, False)
    assert str(tmp_path / "base") in started[1]["env"]["PYTHONPATH"].split(os.pathsep)


def test_no_process_is_started_before_the_first_command(base: Path) -> None:
    with WarmPython(base) as python:
        assert python._server is None
