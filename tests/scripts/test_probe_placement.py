"""Kernels that note where their programs run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from ioaware.targets.loading import load_file
from tests.support.machine_code import TOOLS

SCRIPT = Path(__file__).parents[2] / "scripts" / "probe_placement.py"
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry one(.param .u32 size) {
.reg .pred %early;
.reg .b32 %n;
// %bb.0:
	ld.param.u32 %n, [size];
	setp.eq.u32 %early, %n, 0;
	@%early ret;
	ret;
}
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


def instructions(ptx: str, folder: Path) -> list[str]:
    """Return the machine code of PTX."""
    (folder / "one.ptx").write_text(ptx)
    subprocess.run([TOOLS / "ptxas", "-arch=sm_90", folder / "one.ptx", "-o", folder / "one.cubin"], check=True)
    done = subprocess.run([TOOLS / "nvdisasm", "-c", folder / "one.cubin"], check=True, capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if "/*0" in line]


def test_a_kernel_notes_its_clocks_and_its_sm_and_nothing_before(script: ModuleType, tmp_path: Path) -> None:
    before, after = (instructions(ptx, tmp_path) for ptx in (PTX, script.noting(PTX)))
    assert not [line for line in before if "STG" in line]
    assert len([line for line in after if "STG" in line]) == 4
    assert len([line for line in after if "CS2R" in line and "SR_CLOCKLO" in line]) == 2
    assert len([line for line in after if "SR_GLOBALTIMERLO" in line]) >= 2
    assert len([line for line in after if "SR_VIRTUALSMID" in line or "SR_SMID" in line or "SR_VIRTID" in line]) >= 1


def test_clocks_of_an_sm_are_from_its_first_start(script: ModuleType) -> None:
    kernel = SimpleNamespace(metadata=SimpleNamespace(name="one", num_warps=4, shared=0), n_regs=32)
    noted = np.array([[1000, 0, 1100, 1, 2], [5, 50, 8, 1, 2], [1010, 0, 1150, 3, 9], [1100, 0, 1300, 4, 5]], dtype=np.int64)
    found = script.described("flash2", {"heads": 2}, kernel, noted)
    assert found["programs"] == 4
    assert found["sms"] == {"0": [[0, 0, 100], [2, 10, 150], [3, 100, 300]], "50": [[1, 0, 3]], "100": []}
    assert found["mean_clocks"] == pytest.approx((100 + 3 + 140 + 200) / 4, abs=0.1)
