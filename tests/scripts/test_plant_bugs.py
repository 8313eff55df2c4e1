"""The code that each planted bug replaces is in the package, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.targets.loading import load_file

PLANT = load_file(Path(__file__).parents[2] / "scripts" / "plant_bugs.py")


def test_every_bug_can_be_planted() -> None:
    assert len({bug.name for bug in PLANT.read_bugs()}) >= 80


def test_code_that_is_gone_is_an_error(tmp_path: Path) -> None:
    bugs = tmp_path / "bugs.toml"
    bugs.write_text('[[bug]]\nname = "old"\nfile = "README.md"\nold = "no such words"\nnew = ""\ntests = "tests"\n')
    with pytest.raises(ValueError, match="old: its code is found 0 times"):
        PLANT.read_bugs(bugs)
