"""Kernels found in source by decorator, without import.

Device functions belong to their callers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.errors import DataError
from ioaware.gate.repository.kernel_finder import find_kernels
from tests.support.gate_runs import REPOSITORY

SOURCE = """
import triton
from triton import jit as compiled
import triton.language as tl
from triton.experimental import gluon

raise SystemExit("never imported")

@triton.jit
def plain(x):
    helper(x)

@triton.jit
def helper(x):
    pass

@triton.autotune(configs=[], key=[])
@triton.jit(do_not_specialize=["n"])
def tuned(x, n):
    both(x)

@gluon.jit
def glued(x):
    return

@triton.jit
def library(x):
    return x + 1

@triton.jit
def launched(x):
    return x

def of_launched(x):
    launched[(1,)](x)

@compiled
def renamed(x):
    pass

@compiled
def both(x):
    pass

def host(x):
    both[(1,)](x)

def by_a_call(x):
    pass

by_a_call = triton.heuristics({})(triton.jit(by_a_call))

def by_a_call_with_options(x):
    pass

by_another_name = triton.jit(debug=True)(by_a_call_with_options)

def no_kernel(x):
    pass

no_kernel = torch.jit.script(no_kernel)

@torch.jit.script
def other(x):
    pass
"""


def test_kernels_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "kernels.py").write_text(SOURCE)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "kernels.py").write_text(SOURCE)
    names = ("plain", "tuned", "glued", "renamed", "both", "launched", "by_a_call", "by_a_call_with_options")
    assert find_kernels(tmp_path) == {f"ops/kernels.py:{name}" for name in names}


def test_the_example_repository() -> None:
    assert find_kernels(REPOSITORY) == {"scale.py:scale_kernel"}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Its kernels would not be counted, and the share would be too large."""
    (tmp_path / "kernels.py").write_text("import triton\ndef (")
    with pytest.raises(DataError, match="cannot be read as Python"):
        find_kernels(tmp_path)


@pytest.mark.parametrize(
    ("decorator", "found"),
    [
        ("triton.jit", True), ("gluon.jit(debug=True)", True), ("tl.jit", True), ("ttgl.jit", True), ("gl.jit", True),
        ("triton.language.jit", True), ("torch.jit", False), ("tl.other", False), ("triton.heuristics({})", False),
        ("jit", False),
    ],
)  # fmt: skip
def test_decorators_that_make_a_kernel(decorator: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(f"import triton\n\n@{decorator}\ndef kernel(x):\n    pass\n")
    assert find_kernels(tmp_path) == ({"k.py:kernel"} if found else set())
