"""Commands in forks of a process that has imported torch, and in fresh ones."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

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


def test_no_process_is_started_before_the_first_command(base: Path) -> None:
    with WarmPython(base) as python:
        assert python._server is None
