"""A GPU machine may have neither plotly nor msgspec: what predicts, traces, measures and sweeps must start there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABSENT = ("msgspec", "plotly", "pyarrow")
SMALL = ["flash2", "-p", "seq_len=32", "-p", "head_dim=16", "-p", "block_m=16", "-p", "block_n=16"]
STUDY = '[[grid]]\nsources = ["predict"]\ntargets = ["flash2"]\nparams = { seq_len = [64, 128] }\n'


def without(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that cannot import the libraries of ABSENT."""
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({ABSENT}))\nfrom ioaware.cli.main import main\nmain({list(arguments)})"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["list"], ["doctor"], ["predict", *SMALL], ["trace", *SMALL]])
def test_starts(arguments: list[str]) -> None:
    done = without(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_sweeps(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    done = without("sweep", str(tmp_path / "tiny.toml"), "--store", str(tmp_path / "tiny.db"), "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 ok" in done.stdout


def test_measure_gets_as_far_as_the_gpu() -> None:
    """Either it measures or it says what the machine lacks; never that a library of another verb is missing."""
    done = without("measure", *SMALL, "--no-counters")
    assert done.returncode in (0, 5), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_what_needs_a_library_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY)
    store = str(tmp_path / "tiny.db")
    without("sweep", str(tmp_path / "tiny.toml"), "--store", store, "-q")
    done = without("export", "--store", store, "-o", str(tmp_path / name))
    assert done.returncode in (2, 5)
    assert done.stderr.startswith("ioaware: ")
    assert "pip install" in done.stderr
