"""`import ioaware` and its help load no heavy library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "triton", "sympy", "numpy", "matplotlib", "resvg_py", "rich", "msgspec", "jinja2")
HELP = "import contextlib\nfrom ioaware.cli.main import main\nwith contextlib.suppress(SystemExit):\n    main(['--help'])"


def heavy_modules_after(code: str) -> set[str]:
    """Return the heavy modules in a fresh interpreter after running `code`."""
    question = f"\nimport sys\nprint('loaded:', *(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code + question], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "code",
    [
        "import ioaware",
        "import ioaware; ioaware.__version__, dir(ioaware)",
        "import ioaware.api",
        "import ioaware.fusion",
        "import ioaware.gate.pytest_plugin",
        "import ioaware.bench.benchmark_plugin",
        "import ioaware.kernels.attention",
        HELP,
    ],
)
def test_loads_nothing_heavy(code: str) -> None:
    assert heavy_modules_after(code) == set()


@pytest.mark.parametrize("name", ["sympy", "numpy", "rich"])
def test_the_test_above_can_fail(name: str) -> None:
    assert name in heavy_modules_after(f"import ioaware, {name}")


def test_a_verb_loads_only_its_own_libraries() -> None:
    """`predict` must start without resvg_py and msgspec.

    `list` needs neither torch nor sympy.
    """
    verb = HELP.replace("--help", "list")
    assert heavy_modules_after(verb) == {"rich"}


def test_the_page_of_a_store_needs_no_torch() -> None:
    """It only draws what is stored."""
    assert not heavy_modules_after("import ioaware.cli.reports.store_report") & {"torch", "triton", "matplotlib"}


def test_the_page_of_attention_needs_no_torch() -> None:
    """Its runs and walks are made in processes of their own."""
    code = "import ioaware.cli.reports.report_data, ioaware.report.attention.attention_page, ioaware.sweep.batches"
    assert not heavy_modules_after(code) & {"torch", "triton", "matplotlib"}


def test_the_version_is_printed_from_another_directory(tmp_path: Path) -> None:
    """With the package on PYTHONPATH."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ioaware", "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ioaware ")
