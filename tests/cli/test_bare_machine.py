"""A GPU machine may have neither plotly nor msgspec: what predicts, traces, measures and sweeps must start there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABSENT = ("msgspec", "plotly", "pyarrow")
SMALL = ["flash2", "-p", "seq_len=32", "-p", "head_dim=16", "-p", "block_m=16", "-p", "block_n=16"]
STUDY = '[[grid]]\nsources = ["predict"]\ntargets = ["flash2"]\nparams = { seq_len = [64, 128] }\n'


PROGRAM = """
import json, os, sys
parent = os.getpid()
sys.modules.update(dict.fromkeys({absent}))
from ioaware.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as exit_:
        if os.getpid() != parent:  # the child of a verb that runs its target apart
            raise
        print("exit", exit_.code, flush=True)
"""


def without(*commands: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Command lines in a process that cannot import the libraries of ABSENT; `exit` and its code follow each one's output."""
    arguments = [sys.executable, "-c", PROGRAM.format(absent=ABSENT), json.dumps(commands)]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)


def test_starts() -> None:
    commands = [["list"], ["doctor"], ["predict", *SMALL], ["trace", *SMALL]]
    done = without(*commands)
    assert done.stderr == ""
    *said, rest = done.stdout.split("exit 0\n")
    assert len(said) == len(commands)
    assert all(said)
    assert rest == ""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a sweep there has stored."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "tiny.toml").write_text(STUDY)
    done = without(["sweep", str(folder / "tiny.toml"), "--store", str(folder / "tiny.db"), "-q"])
    assert done.stderr == ""
    assert "2 ok" in done.stdout
    assert done.stdout.endswith("exit 0\n")
    return folder / "tiny.db"


def test_measure_gets_as_far_as_the_gpu() -> None:
    """Either it measures or it says what the machine lacks; never that a library of another verb is missing."""
    done = without(["measure", *SMALL, "--no-counters"])
    assert done.stdout.endswith(("exit 0\n", "exit 5\n")), done.stderr
    assert "Traceback" not in done.stderr


def test_what_needs_a_library_names_it(store: Path, tmp_path: Path) -> None:
    names = ["out.parquet", "out.csv"]
    done = without(*(["export", "--store", str(store), "-o", str(tmp_path / name)] for name in names))
    assert re.fullmatch("(exit [25]\n){2}", done.stdout)
    said = done.stderr.split("ioaware: ")
    assert said[0] == ""
    assert len(said) == 1 + len(names)
    assert all("pip install" in text for text in said[1:])
