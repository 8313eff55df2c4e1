"""Importing ioaware, and asking it for help, loads nothing heavy and takes no time worth noticing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "triton", "sympy", "numpy", "matplotlib", "plotly", "rich", "msgspec", "jinja2")
HELP = "import contextlib\nfrom ioaware.cli.main import main\nwith contextlib.suppress(SystemExit):\n    main(['--help'])"


def loaded_by(code: str) -> set[str]:
    """Which heavy modules a fresh interpreter has after running `code`."""
    question = f"\nimport sys\nprint('loaded:', *(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code + question], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def fastest_ms(*arguments: str, runs: int) -> float:
    """The best of some runs of the interpreter: what the code costs, without what else the machine was doing."""
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


@pytest.mark.parametrize(
    "code", ["import ioaware", "import ioaware; ioaware.__version__, dir(ioaware)", "import ioaware.api", HELP]
)
def test_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) == set()


@pytest.mark.parametrize("name", ["sympy", "numpy", "rich"])
def test_the_test_above_can_fail(name: str) -> None:
    assert name in loaded_by(f"import ioaware, {name}")


def test_import_takes_at_most_50_ms() -> None:
    code = "import time; start = time.perf_counter(); import ioaware; print(1000 * (time.perf_counter() - start))"
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(5)
    ]
    assert statistics.median(float(run.stdout) for run in runs) <= 50


def test_help_takes_at_most_200_ms() -> None:
    assert fastest_ms("-m", "ioaware", "--help", runs=7) <= 200


def test_a_verb_loads_only_its_own_libraries() -> None:
    """`predict` must start where plotly and msgspec are not installed; `list` needs neither torch nor sympy."""
    verb = HELP.replace("--help", "list")
    assert loaded_by(verb) == {"rich"}


def test_the_environment_of_the_caller_does_not_change_the_answer(tmp_path: Path) -> None:
    """From another directory, with the package on the path."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ioaware", "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ioaware ")
