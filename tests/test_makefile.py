"""The set-up is redone if its inputs change, and not for an activated environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"


@pytest.mark.skipif(not shutil.which("make") or not MAKEFILE.exists(), reason="needs make and a checkout")
def test_the_stamp_is_the_same_with_the_environment_activated(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(name)
    venv.create(tmp_path / ".venv", with_pip=False)

    def inputs(python: str | Path) -> str:
        """Return the value that make compares with the stamp.

        `--print-data-base` shows the variable without running a recipe.
        """
        command = ["make", "-np", "-f", str(MAKEFILE), f"PYTHON={python}", "clean"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
        )
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("INPUTS := "))
        return line.removeprefix("INPUTS := ")

    before = inputs(sys.executable)
    assert len(before) == 64
    assert inputs(tmp_path / ".venv" / "bin" / "python") == before
    (tmp_path / "constraints.txt").write_text("another")
    assert inputs(sys.executable) != before
