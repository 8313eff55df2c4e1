"""Kernels that use words of local memory again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from ioaware.targets.loading import load_file
from tests.support.machine_code import TOOLS

SCRIPT = Path(__file__).parents[2] / "scripts" / "probe_local.py"
NAMES = {"S": "STL", "R": "LDL", "L": "LDL.LU", "G": "LDG.E", "E": "LDG.E.EF"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


@pytest.mark.parametrize("phases", ["S T L", "S L S T R", "S T R T R", "G G E T G"])
def test_phases_follow_each_other_in_machine_code(script: ModuleType, phases: str, tmp_path: Path) -> None:
    what = script.described(4, 2, phases, "v4", 26, 128)
    (tmp_path / "one.cubin").write_bytes(script.assemble(what))
    done = subprocess.run([TOOLS / "nvdisasm", "-c", tmp_path / "one.cubin"], check=True, capture_output=True, text=True)
    wanted = [NAMES[phase] for phase in phases.split() if phase != "T" for _ in range(what["words"])]
    assert re.findall(r"\b(STL|LDL(?:\.LU)?|LDG\.E(?:\.EF)?) ", done.stdout) == wanted
    assert len(re.findall(r"\bLDG\.E\.128\b", done.stdout)) == phases.count("T") * script.UNROLLED
