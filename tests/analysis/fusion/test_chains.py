"""Longer chains fuse exactly, and no certificate is given for a finite state."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ioaware.analysis.fusion.answer import fuse
from ioaware.analysis.fusion.expressions.arithmetic import FloatNumbers
from ioaware.analysis.fusion.lifting.fold import Fold, finish
from ioaware.errors import InconclusiveError
from ioaware.targets.loading import load_file
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison
from tests.support.fusion_chains import (
    CHAINS,
    FINITE_WITHOUT_A_RULE,
    REFUSED,
    above_the_least,
    correlation,
    divergence,
    five_passes,
    four_sums,
)
from tests.support.random_brackets import fold_in_random_brackets


@pytest.mark.parametrize("program", CHAINS, ids=lambda program: program.__name__)
def test_every_bracketing_of_a_chain_is_the_program(program: Callable[..., Any]) -> None:
    """The reference is the function itself, run by numpy in float64."""
    fusion = fuse(program)
    assert (fusion.passes_before, fusion.passes_after, len(fusion.state)) == (CHAINS[program][0], 1, CHAINS[program][1])
    source, inputs = random.Random(program.__name__), fusion.program.inputs
    fold = Fold(fusion.plan, fusion.plan.passes[0], FloatNumbers())
    for spread in (3, 3, 0.5, 30):
        columns = [np.array([source.uniform(-spread, spread) for _ in range(11)]) for _ in inputs]
        elements = [dict(zip(inputs, row, strict=True)) for row in zip(*columns, strict=True)]
        with np.errstate(invalid="ignore"):
            expected = program(*columns)
        (found,) = finish(fusion.plan, fold.results(fold_in_random_brackets(fold, elements, source)), FloatNumbers())
        if np.isfinite(expected):
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("program", [above_the_least, four_sums, five_passes, correlation, divergence])
def test_kernels_of_chains_match_float64(program: Callable[..., Any], tmp_path: Path) -> None:
    fusion = fuse(program)
    fusion.write_kernel(tmp_path / "chain.py")
    module = load_file(tmp_path / "chain.py")
    module.BLOCK = 64  # pyright: ignore[reportAttributeAccessIssue]
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, 150, generator=generator, dtype=torch.float64) for _ in fusion.program.inputs]
    expected = torch.tensor([program(*(tensor[row].numpy() for tensor in inputs)) for row in range(2)])
    for form in (module.fused, module.fused_split, module.separate):
        with interpret_kernels(), Poison():
            torch.testing.assert_close(form(*inputs).double(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_more_programs_are_refused_with_a_certificate(program: Callable[..., Any]) -> None:
    fusion = fuse(program)
    assert (fusion.fusable, fusion.passes_after) == (False, 2)
    assert "Infinite rank" in fusion.certificate


@pytest.mark.parametrize("program", FINITE_WITHOUT_A_RULE, ids=lambda program: program.__name__)
def test_no_certificate_is_given_for_a_finite_state(program: Callable[..., Any]) -> None:
    with pytest.raises(InconclusiveError, match="undecided"):
        fuse(program)
