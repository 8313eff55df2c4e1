"""Compiler errors name file, line and function."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import ioaware
from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.targets.target import load_target


@triton.jit
def helper(x):
    return x.nothing_in_a_helper


@triton.jit
def calling_kernel(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, helper(at))


@triton.jit
def shape_kernel(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    wrong = at + tl.arange(0, 2 * BLOCK)
    tl.store(x + at, wrong)


@triton.jit
def tanh_kernel(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, libdevice.tanh(tl.load(x + at)))


def test_a_call_of_a_library_without_a_form_for_the_type_names_function_types_and_line() -> None:
    """Triton raises a `KeyError` of the types alone."""

    def work(n: int = 16):
        x = torch.zeros(n, device="cuda", dtype=torch.float16)
        return lambda: tanh_kernel[(1,)](x, BLOCK=16)

    with pytest.raises(UsageError) as raised:
        ioaware.derive(work)
    line = next(
        number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "libdevice.tanh(tl.load" in line
    )
    said = f"libdevice.tanh takes fp32 or fp64, not fp16 at test_compile_errors.py:{line}"
    assert said in raised.value.what
    assert ".to(tl.float32)" in raised.value.remedy


@pytest.mark.parametrize(("kernel", "text"), [(calling_kernel, "return x.nothing_in_"), (shape_kernel, "wrong = at")])
def test_derive_and_trace_name_the_same_line(kernel, text: str) -> None:
    def work(n: int = 16):
        x = torch.zeros(n, device="cuda")
        return lambda: kernel[(1,)](x, BLOCK=16)

    line = next(
        number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.strip().startswith(text)
    )
    for verb in (ioaware.derive, ioaware.trace):
        with pytest.raises(UsageError, match=rf"at test_compile_errors\.py:{line}\b"):
            verb(work)


def test_a_double_quote_in_the_path_of_a_kernel_is_named(tmp_path: Path) -> None:
    """Ptxas reads the path between quotes.

    So Triton cannot compile such a kernel on a GPU.
    """
    file = tmp_path / 'quo"te.py'
    file.write_text(
        "import torch, triton, triton.language as tl\n\n@triton.jit\ndef kernel(x):\n    tl.store(x, tl.load(x) + 1)\n\n"
        "def run():\n    x = torch.zeros(1, device='cuda')\n    return lambda: kernel[(1,)](x)\n"
    )
    with pytest.raises(UsageError, match="does not compile for cuda:90") as raised:
        derive(load_target(f"{file}:run"), {})
    assert "double quote in the path" in raised.value.remedy
