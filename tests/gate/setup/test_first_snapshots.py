"""Where the first snapshots are created, and by which command.

The processes are invented.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ioaware.errors import MachineError, UsageError
from ioaware.gate.setup import first_snapshots
from tests.support.invented_processes import Processes, raised, said


def test_snapshots_are_created_by_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processes = Processes(monkeypatch, said("1 passed", 0, " and a warning"), said("1 failed", 1))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--traffic=accept")
    monkeypatch.setattr(first_snapshots.importlib.util, "find_spec", lambda name: None)
    assert first_snapshots.create_snapshots(tmp_path, Path("test_traffic.py")) == (True, "1 passed and a warning")
    monkeypatch.setattr(first_snapshots.importlib.util, "find_spec", lambda name: name == "xdist" or None)
    assert first_snapshots.create_snapshots(tmp_path, Path("test_traffic.py")) == (False, "1 failed")
    (plain, options), (with_xdist, _) = processes.calls
    begin = [sys.executable, "-m", "pytest", "-p", "no:ioaware", "-p", "ioaware.gate.pytest_plugin", "-q"]
    end = ["--traffic=create", "test_traffic.py"]
    assert plain == [*begin, "-p", "no:cacheprovider", *end]
    assert with_xdist == [*begin, "-p", "no:cacheprovider", "-n0", *end]
    environment = options.pop("env")
    assert environment == {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    assert options == {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 3600.0, "check": False}


def test_where_snapshots_cannot_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    for quiet in ("", "0", "False", "false"):
        monkeypatch.setenv("CI", quiet)
        first_snapshots.check_can_create()
    monkeypatch.setenv("CI", "1")
    what = "init writes snapshots, which CI must not do (the environment sets CI)"
    assert raised(first_snapshots.check_can_create) == (UsageError, what, "Run it in a checkout of your own.")
    monkeypatch.delenv("CI")
    first_snapshots.check_can_create()
    monkeypatch.setattr(first_snapshots.importlib.util, "find_spec", lambda name: None if name == "pytest" else name)
    what = "pytest is not installed, and the gate is tests"
    assert raised(first_snapshots.check_can_create) == (MachineError, what, "pip install pytest")
