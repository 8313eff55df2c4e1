"""The verbs for a GPU machine run without resvg_py, msgspec and pyarrow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABSENT = ("msgspec", "resvg_py", "pyarrow")
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
        if os.getpid() != parent:  # the child process in which a verb runs its target
            raise
        print("exit", exit_.code, flush=True)
"""


def run_without_libraries(*commands: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Command lines in a process that cannot import the libraries of ABSENT.

    `exit` and its code follow each one's output.
    """
    arguments = [sys.executable, "-c", PROGRAM.format(absent=ABSENT), json.dumps(commands)]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)


def test_verbs_run_without_the_libraries() -> None:
    commands = [["list"], ["doctor"], ["predict", *SMALL], ["trace", *SMALL]]
    done = run_without_libraries(*commands)
    assert done.stderr == ""
    *outputs, rest = done.stdout.split("exit 0\n")
    assert len(outputs) == len(commands)
    assert all(outputs)
    assert rest == ""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store filled by a sweep without the libraries."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "tiny.toml").write_text(STUDY)
    done = run_without_libraries(["sweep", str(folder / "tiny.toml"), "--store", str(folder / "tiny.db"), "-q"])
    assert done.stderr == ""
    assert "2 ok" in done.stdout
    assert done.stdout.endswith("exit 0\n")
    return folder / "tiny.db"


def test_measure_fails_only_for_lack_of_a_gpu() -> None:
    """It measures, or names what the machine lacks, and never another verb's library."""
    done = run_without_libraries(["measure", *SMALL, "--no-counters"])
    assert done.stdout.endswith(("exit 0\n", "exit 5\n")), done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_library_is_named(store: Path, tmp_path: Path) -> None:
    names = ["out.parquet", "out.csv"]
    done = run_without_libraries(*(["export", "--store", str(store), "-o", str(tmp_path / name)] for name in names))
    assert re.fullmatch("(exit [25]\n){2}", done.stdout)
    errors = done.stderr.split("ioaware: ")
    assert errors[0] == ""
    assert len(errors) == 1 + len(names)
    assert all("pip install" in text for text in errors[1:])
