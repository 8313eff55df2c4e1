"""Generated Triton kernels match float64, and their bytes the prediction.

Derived and traced bytes both equal it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import ioaware
from ioaware.fusion import reduce_max, reduce_mean, reduce_min, reduce_sum, rint, softplus
from ioaware.targets.loading import load_file
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison
from tests.support.fusion_programs import (
    FUSABLE,
    answer,
    attention,
    entropy,
    flash_decoding,
    layer_norm_dot,
    relu_of_mean,
    rounded_dot,
    softmax_variance,
    softplus_of_max,
    top_probability,
)


def signed(x: Any, y: Any) -> Any:
    """Minima, maxima, a value that is no component, softplus, rounding of elements."""
    n = reduce_mean(x)
    return reduce_min(n * y + rint(x / x)), reduce_sum(softplus(x)) / (n * n + 1)


def generate_module(program: Callable[..., Any], folder: Path, block: int = 64) -> ModuleType:
    """Return the generated file as a module.

    Its blocks are small enough for several in a row.
    """
    path = folder / f"{program.__name__}.py"
    answer(program).write_kernel(path)
    module = load_file(path)
    module.BLOCK = block  # pyright: ignore[reportAttributeAccessIssue]
    return module


def run(function: Callable[..., Any], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    with interpret_kernels(), Poison():
        output = function(*inputs)
    return list(output) if isinstance(output, tuple) else [output]


def reference(program: Callable[..., Any], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the outputs of the program itself, run by numpy in float64 row by row."""
    rows = [program(*(tensor[row].double().numpy() for tensor in inputs)) for row in range(inputs[0].shape[0])]
    columns = zip(*(row if isinstance(row, tuple) else (row,) for row in rows), strict=True)
    return [torch.tensor(np.array(column)) for column in columns]


def make_inputs(program: Callable[..., Any], rows: int, length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    count = len(answer(program).program.inputs)
    return [(torch.randn(rows, length, generator=generator, dtype=torch.float64) * 2).to(dtype) for _ in range(count)]


ALL = (*FUSABLE, signed, softplus_of_max, relu_of_mean, rounded_dot)


@pytest.mark.parametrize("program", ALL, ids=lambda program: program.__name__)
def test_every_form_matches_float64(program: Callable[..., Any], tmp_path: Path) -> None:
    """Ragged lengths, one shorter than a block, and one that leaves splits empty."""
    module = generate_module(program, tmp_path)
    forms = [module.fused, module.separate] + ([module.fused_split] if answer(program).fusable else [])
    for length in (33, 200):
        inputs = make_inputs(program, 2, length, torch.float64)
        for form in forms:
            for found, expected in zip(run(form, inputs), reference(program, inputs), strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("program", [attention, layer_norm_dot, softmax_variance], ids=lambda program: program.__name__)
def test_short_types_are_summed_in_float32(program: Callable[..., Any], dtype: torch.dtype, tmp_path: Path) -> None:
    inputs = make_inputs(program, 2, 300, dtype)
    (found,) = run(generate_module(program, tmp_path).fused, inputs)
    (expected,) = reference(program, inputs)
    assert found.dtype == dtype
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), expected, rtol=4 * rounding, atol=2e-6)


@pytest.mark.parametrize("program", [attention, flash_decoding, top_probability], ids=lambda program: program.__name__)
@pytest.mark.parametrize("form", ["fused", "separate", "fused_split"])
def test_masked_elements(program: Callable[..., Any], form: str, tmp_path: Path) -> None:
    """-inf in the first blocks, the last, at random, and in a whole row.

    A whole row gives 0 and not NaN.
    """
    inputs = make_inputs(program, 5, 200, torch.float64)
    x = inputs[0]
    x[0, :130], x[1, 60:], x[2, ::3], x[4, :] = -np.inf, -np.inf, -np.inf, -np.inf
    x[3] -= 800
    found = run(getattr(generate_module(program, tmp_path), form), inputs)
    with np.errstate(all="ignore"):
        expected = reference(program, [tensor[:4] for tensor in inputs])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one[:4], other, rtol=1e-12, atol=1e-12)
    assert found[0][4] == 0


def test_a_large_common_offset_costs_no_digits(tmp_path: Path) -> None:
    """The variance of numbers around 10,000 in float32.

    A sum of squares would keep no digit.
    """

    def variance(x: Any) -> Any:
        return reduce_mean((x - reduce_mean(x)) ** 2)

    inputs = [(torch.randn(2, 4000, generator=torch.Generator().manual_seed(0)) + 10_000).float()]
    (found,) = run(generate_module(variance, tmp_path).fused, inputs)
    (expected,) = reference(variance, inputs)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("program", [attention, entropy, flash_decoding, softplus_of_max], ids=lambda program: program.__name__)
def test_bytes_are_predicted_derived_and_traced(program: Callable[..., Any], tmp_path: Path) -> None:
    """One read of each input for a fused pass, and the reads of each pass as written."""
    fusion = answer(program)
    path = tmp_path / "kernel.py"
    fusion.write_kernel(path)
    inputs, outputs = len(fusion.program.inputs), len(fusion.program.outputs)
    rows, length = 3, 70
    reads, writes = fusion.predict(rows, length)
    assert writes == 4 * rows * outputs
    if fusion.fusable:
        assert reads == 4 * rows * length * inputs
    for target, passes in (("one_kernel", fusion.reads[1]), ("as_written", fusion.reads[0])):
        derived = ioaware.derive(f"{path}:{target}", rows=rows, length=length)
        traced = ioaware.trace(f"{path}:{target}", rows=rows, length=length)
        assert derived.exact
        for found in (derived.requested, traced.requested):
            assert found
            assert (found.read_bytes, found.write_bytes) == (4 * rows * length * passes, writes)


def test_the_split_form_adds_only_its_states(tmp_path: Path) -> None:
    fusion = answer(attention)
    path = tmp_path / "kernel.py"
    fusion.write_kernel(path)
    reads, writes = fusion.predict(2, 3000)
    states = 2 * 4 * len(fusion.state) * 4
    derived = ioaware.derive(f"{path}:split", rows=2, length=3000, splits=4)
    traced = ioaware.trace(f"{path}:split", rows=2, length=3000, splits=4)
    assert derived.exact
    for found in (derived.requested, traced.requested):
        assert found
        assert (found.read_bytes, found.write_bytes) == (reads + states, writes + states)


def test_names_of_the_program_cannot_collide_with_the_files(tmp_path: Path) -> None:
    """Inputs and reductions have names that the generated file uses itself."""

    def program(row: Any, length: Any) -> Any:
        tl = reduce_max(row)
        return reduce_sum(length * row / (tl * tl + 1))

    inputs = make_inputs(program, 2, 100, torch.float64)
    (found,) = run(generate_module(program, tmp_path).fused, inputs)
    torch.testing.assert_close(found, reference(program, inputs)[0], rtol=1e-12, atol=1e-12)
