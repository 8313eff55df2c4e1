"""A user's folder of a library's name is the user's: `ops/triton` is common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import triton

from ioaware.derivation.derive import derive
from ioaware.targets.loading import is_library
from ioaware.targets.target import load_target

FILE = """
import torch, triton, triton.language as tl

@triton.jit
def copy(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n), at < n)

def run(device="cuda"):
    longest = int(torch.tensor([100, 300], device=device).max())
    x = torch.empty(longest, device=device)
    copy[(triton.cdiv(longest, 64),)](x, torch.empty_like(x), longest, B=64)
"""


@pytest.mark.parametrize("name", ["torch", "triton", "numpy", "importlib"])
def test_code_in_a_folder_of_that_name_reads_its_data(tmp_path: Path, name: str) -> None:
    file = tmp_path / "ops" / name / "copies.py"
    file.parent.mkdir(parents=True)
    file.write_text(FILE)
    assert not is_library(str(file))
    target = load_target(f"{file}:run")
    derived = derive(target, {}, machine_code=False)
    assert derived.exact
    assert derived.requested is not None
    assert derived.requested.read_bytes == 4 * 300


@pytest.mark.parametrize("module", [torch, torch.nn.functional, triton, np])
def test_the_libraries_themselves_are_known(module: object) -> None:
    assert is_library(str(getattr(module, "__file__", "")))
