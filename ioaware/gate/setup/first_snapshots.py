"""Run the first tests of a repository once with `--traffic=create`.

That writes their snapshots, and records in the ledger what they gate.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from ioaware.errors import MachineError, UsageError

TIMEOUT_S = 3600.0
PLUGIN = ("-p", "no:ioaware", "-p", "ioaware.gate.pytest_plugin")
"""This ioaware's plugin, whichever one is installed."""


def check_can_create() -> None:
    """Raise `UsageError` in CI, and `MachineError` without pytest.

    No snapshot may be written in CI.
    """
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        raise UsageError(
            "init writes snapshots, which CI must not do (the environment sets CI)", "Run it in a checkout of your own."
        )
    if importlib.util.find_spec("pytest") is None:
        raise MachineError("pytest is not installed, and the gate is tests", "pip install pytest")


def create_snapshots(root: Path, tests: Path) -> tuple[bool, str]:
    """Return whether the tests pass, and what pytest printed."""
    one_process = ["-n0"] if importlib.util.find_spec("xdist") else []
    options = [*PLUGIN, "-q", "-p", "no:cacheprovider", *one_process, "--traffic=create", str(tests)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(  # noqa: S603 - this Python, and the tests that have just been written
        [sys.executable, "-m", "pytest", *options],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode == 0, done.stdout + done.stderr
