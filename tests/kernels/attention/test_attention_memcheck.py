"""compute-sanitizer's memcheck finds no access out of bounds.

This is so for the attention kernels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ioaware
from tests.support import SUPPORT

AVAILABLE = torch.cuda.is_available()
HOPPER = AVAILABLE and torch.cuda.get_device_capability()[0] == 9
SANITIZER = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
FOUND = 9


@pytest.mark.gpu
@pytest.mark.skipif(not AVAILABLE, reason="torch sees no CUDA GPU")
@pytest.mark.skipif(SANITIZER is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("hopper", marks=pytest.mark.skipif(not HOPPER, reason="torch sees no GPU of compute capability 9.0")),
        "triton",
        "decode",
    ],
)
def test_memcheck(backend: str) -> None:
    assert SANITIZER is not None
    command = [SANITIZER, "--tool", "memcheck", "--error-exitcode", str(FOUND), "--target-processes", "application-only"]
    script = SUPPORT / "sanitized.py"
    # without torch's caching allocator each tensor is one allocation, so memcheck sees accesses beyond its end
    environment = os.environ | {
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
        "PYTHONPATH": str(Path(ioaware.__file__).parents[1]),
    }
    done = subprocess.run(
        [*command, sys.executable, script, backend], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    report = done.stdout + done.stderr
    assert "all launched" in report, report
    assert "ERROR SUMMARY: 0 errors" in report, report
    assert done.returncode == 0, report
