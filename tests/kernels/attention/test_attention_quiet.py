"""numpy warns of nothing in Triton's interpreter.

There is no NaN, overflow or division by zero.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import triton

PROGRAM = """
import torch
from ioaware.kernels.attention.flash1 import flash1
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.standard import standard

for distribution in ("large-logit", "masked"):
    q, k, v = attention_inputs(1, 1, 40, 24, 24, dtype=torch.float16, distribution=distribution)
    for kernel in (standard, flash1, flash2):
        kernel(q, k, v, causal=True, block_m=16, block_n=12)
print("quiet")
"""


@pytest.mark.skipif(
    triton.__version__.startswith("3.6"), reason="Triton 3.6's own interpreter fails on loop bounds with numpy 2.4"
)
def test_no_warning() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout == "quiet\n"
    assert run.stderr == ""
