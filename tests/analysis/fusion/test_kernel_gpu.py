"""Generated Triton kernels on a GPU: every form against float64, and by type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ioaware.targets.loading import load_file
from tests.support.fusion_programs import FUSABLE, answer, relu_of_mean, rounded_dot, sigmoid_of_mean, softplus_of_max

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU"),
]
PROGRAMS = (*FUSABLE, softplus_of_max, sigmoid_of_mean, relu_of_mean, rounded_dot)
FORMS = ("fused", "separate", "fused_split")


def reference(program: Callable[..., Any], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the outputs of the program itself, run by numpy in float64 row by row."""
    rows = [program(*(tensor[row].double().cpu().numpy() for tensor in inputs)) for row in range(inputs[0].shape[0])]
    columns = zip(*(row if isinstance(row, tuple) else (row,) for row in rows), strict=True)
    return [torch.tensor(np.array(column)) for column in columns]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_form_matches_float64(program: Callable[..., Any], dtype: torch.dtype, tolerance: float, tmp_path: Path) -> None:
    """Rows of less than a block, of blocks with a rest, and of enough for every split."""
    path = tmp_path / f"{program.__name__}.py"
    answer(program).write_kernel(path)
    module = load_file(path)
    for length in (100, 5000, 20_000):
        generator = torch.Generator().manual_seed(length)
        count = len(answer(program).program.inputs)
        inputs = [torch.randn(5, length, generator=generator, dtype=torch.float64).to(dtype).cuda() for _ in range(count)]
        expected = reference(program, inputs)
        for form in (form for form in FORMS if hasattr(module, form)):
            output = getattr(module, form)(*inputs)
            for found, exact in zip(output if isinstance(output, tuple) else (output,), expected, strict=True):
                scale = exact.abs().max().clamp_min(1e-3)
                assert float((found.double().cpu() - exact).abs().max() / scale) < tolerance, form
