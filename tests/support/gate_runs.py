"""Runs of pytest with the plugin on a copy of the example repository.

They are in one process or another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ioaware.gate import pytest_plugin
from tests.support import ROOT

REPOSITORY = ROOT / "tests" / "support" / "gate_repository"
PLUGIN = ("-p", "no:ioaware", "-p", "ioaware.gate.pytest_plugin", "-p", "no:cacheprovider")
QUIET = ("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:unraisableexception", "-p", "no:threadexception")
"""The last two collect garbage several times a run, and torch leaves much of it."""

OF_A_JOB = ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "GITHUB_SHA", "PYTEST_ADDOPTS")
"""Variables of the job that runs this suite, which inner runs must not have."""


@dataclass(frozen=True)
class Ran:
    code: int
    output: str


class Repository:
    """A copy of the example repository. `kernel` and `test` are its two files."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str] | None) -> None:
        self.root, self._capture = folder, capture
        shutil.copytree(REPOSITORY, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        self.kernel, self.test = folder / "scale.py", folder / "gate_scale.py"

    def change(self, path: Path, old: str, new: str) -> None:
        text, before_ns = path.read_text(), path.stat().st_mtime_ns
        assert old in text
        path.write_text(text.replace(old, new))
        later_ns = before_ns + 2 * 10**9  # Python takes bytecode of the same second and size for the file's
        os.utime(path, ns=(later_ns, later_ns))

    def pytest(self, *arguments: str) -> Ran:
        """Run pytest in this process, which has torch and triton loaded."""
        before, here = list(sys.path), Path.cwd()
        others = {name: sys.modules.pop(name) for name in self._module_names() if name in sys.modules}
        os.chdir(self.root)
        try:
            given = [*QUIET, "--rootdir", str(self.root), "-c", str(self.root / "pytest.ini"), *arguments]
            code = pytest.main(given, plugins=[pytest_plugin])
        finally:
            os.chdir(here)
            sys.path[:] = before
            for name in self._module_names():
                sys.modules.pop(name, None)
            sys.modules.update(others)
        assert self._capture
        out, err = self._capture.readouterr()
        return Ran(int(code), out + err)

    def _module_names(self) -> list[str]:
        """Return the names of the repository's modules.

        Another test may have imported a file of the same name.
        """
        return [path.stem for path in self.root.glob("*.py")]

    def process(self, *command: str, **environment: str) -> Ran:
        """Run `python ...` in a separate process, as a user does."""
        return self._finished([sys.executable, *command], environment)

    def process_pytest(self, *arguments: str, python: tuple[str, ...] = (), **environment: str) -> Ran:
        return self._finished([sys.executable, *python, "-m", "pytest", *PLUGIN, *arguments], environment)

    def _finished(self, command: list[str], environment: Mapping[str, str]) -> Ran:
        kept = {name: value for name, value in os.environ.items() if name not in OF_A_JOB}
        kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**kept, "PYTHONPATH": str(ROOT), "IOAWARE_CACHE_DIR": str(self.root.parent / "cache"), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout + done.stderr)
