"""Programs written differently have the same value, a finite state and its bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ioaware
from ioaware.analysis.fusion.answer import fuse
from ioaware.analysis.fusion.expressions.arithmetic import FloatNumbers
from ioaware.analysis.fusion.lifting.fold import Fold, finish
from ioaware.analysis.fusion.programs import rewriting
from ioaware.analysis.fusion.programs.program_tracing import trace_program
from ioaware.analysis.fusion.programs.rewriting import rewritings
from ioaware.errors import InconclusiveError
from ioaware.fusion import absolute, reduce_max, reduce_mean, reduce_min, reduce_sum, relu, sigmoid
from ioaware.targets.loading import load_file
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison
from tests.support.fusion_rewritten import REWRITTEN, distance_to_the_maximum, normalised_gates, softmax_of_itself
from tests.support.random_brackets import fold_in_random_brackets


def each(result: Any) -> list[Any]:
    return [*result] if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("program", REWRITTEN, ids=lambda program: program.__name__)
def test_every_bracketing_is_the_program_as_numpy_runs_it(program: Callable[..., Any]) -> None:
    fusion = fuse(program)
    assert (fusion.passes_before, fusion.passes_after, len(fusion.state)) == (REWRITTEN[program][0], 1, REWRITTEN[program][1])
    source, inputs = random.Random(program.__name__), fusion.program.inputs
    fold = Fold(fusion.plan, fusion.plan.passes[0], FloatNumbers())
    for spread in (3, 0.5, 20):
        columns = [np.array([source.uniform(-spread, spread) for _ in range(11)]) for _ in inputs]
        elements = [dict(zip(inputs, row, strict=True)) for row in zip(*columns, strict=True)]
        found = finish(fusion.plan, fold.results(fold_in_random_brackets(fold, elements, source)), FloatNumbers())
        assert list(found) == pytest.approx(each(program(*columns)), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "program",
    [
        program if program in (distance_to_the_maximum, softmax_of_itself) else pytest.param(program, marks=pytest.mark.slow)
        for program in REWRITTEN
    ],
    ids=lambda program: program.__name__,
)
def test_kernels_match_float64_and_their_bytes_are_predicted(program: Callable[..., Any], tmp_path: Path) -> None:
    """Two forms are written differently; `separate` is the program as written."""
    fusion, path = fuse(program), tmp_path / "kernel.py"
    fusion.write_kernel(path)
    module = load_file(path)
    module.BLOCK = 64  # pyright: ignore[reportAttributeAccessIssue]
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, 150, generator=generator, dtype=torch.float64) for _ in fusion.program.inputs]
    expected = [each(program(*(tensor[row].numpy() for tensor in inputs))) for row in range(2)]
    for form in (module.fused, module.fused_split, module.separate):
        with interpret_kernels(), Poison():
            found = each(form(*inputs))
        for number, output in enumerate(found):
            values = torch.tensor([row[number] for row in expected], dtype=torch.float64)
            torch.testing.assert_close(output.double(), values, rtol=1e-11, atol=1e-11)
    moved = ioaware.trace(f"{path}:one_kernel", rows=3, length=70).requested
    assert moved is not None
    assert (moved.read_bytes, moved.write_bytes) == fusion.predict(3, 70)


def test_derived_bytes_of_results_that_cancel_are_the_predicted(tmp_path: Path) -> None:
    """The compiler drops loads whose values no result needs; so does the state."""
    fusion, path = fuse(normalised_gates), tmp_path / "kernel.py"
    fusion.write_kernel(path)
    assert fusion.reads == (3, 0)
    assert fusion.bytes_formulas["read_after"] == "0"
    derived = ioaware.derive(f"{path}:one_kernel", rows=64, length=8192)
    assert derived.requested is not None
    assert (derived.requested.read_bytes, derived.requested.write_bytes) == (0, 256)


def test_the_proof_names_what_is_written_differently() -> None:
    assert "sum of abs(max_x - x) = sum of max_x - x" in fuse(distance_to_the_maximum).certificate


def of_another_sequence(x: Any, y: Any) -> Any:
    return reduce_sum(absolute(x - reduce_max(y)))


def of_another_map(x: Any) -> Any:
    return reduce_sum(relu(x - reduce_max(2 * x)))


def above_another_minimum(x: Any) -> Any:
    return reduce_sum(relu(x * x - reduce_min(x)))


def of_the_mean(x: Any) -> Any:
    return reduce_sum(absolute(x - reduce_mean(x)))


@pytest.mark.parametrize("program", [of_another_sequence, of_another_map, above_another_minimum, of_the_mean])
def test_a_sign_that_is_not_known_is_not_used(program: Callable[..., Any]) -> None:
    forms = list(rewritings(trace_program(program)))
    assert all("abs" not in change or "abs" in change.partition(" = ")[2] for form in forms for change in form.changes)
    with suppress(InconclusiveError):
        assert not fuse(program).fusable


def test_large_maps_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling takes time that grows with the map, so there is a limit."""

    def gates(x: Any) -> Any:
        u = x - reduce_mean(x)
        return reduce_sum(sigmoid(u) + sigmoid(-u))

    assert fuse(gates).fusable
    monkeypatch.setattr(rewriting, "LARGEST_MAP", 3)
    with pytest.raises(InconclusiveError):
        fuse(gates)
