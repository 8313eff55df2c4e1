"""Inputs are deterministic, and the reference is right.

A work returns its output alone.
"""

from __future__ import annotations

import math

import pytest
import torch

from ioaware.cases import find_case
from ioaware.kernels.attention.references import reference as reference_module
from ioaware.kernels.attention.references.inputs import DISTRIBUTIONS, Distribution, attention_inputs
from ioaware.kernels.attention.references.reference import attention_reference
from ioaware.tracing.interpreter import interpret_kernels

DEFAULTS = {"batch": 1, "heads": 2, "seq_len": 20, "kv_len": None, "head_dim": 16, "dtype": "float16", "causal": False}


def test_the_reference_equals_attention_by_rows() -> None:
    q, k, v = attention_inputs(1, 1, 5, 4, 16, dtype=torch.float64)
    o = attention_reference(q, k, v, causal=True)
    for row in range(5):
        keys = row  # the last of 5 queries sees all of 4 keys, the first none
        weights = [math.exp(float(q[0, 0, row] @ k[0, 0, col]) / 4) for col in range(keys)]
        expected = sum((w * v[0, 0, col] for col, w in enumerate(weights)), torch.zeros(16, dtype=torch.float64))
        torch.testing.assert_close(o[0, 0, row], expected / sum(weights) if weights else expected)


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_does_not_depend_on_its_chunks(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    q, k, v = attention_inputs(2, 2, 19, 7, 16, dtype=torch.float32)
    whole = attention_reference(q, k, v, causal=causal)
    monkeypatch.setattr(reference_module, "CHUNK_ELEMENTS", 3 * 7)
    torch.testing.assert_close(attention_reference(q, k, v, causal=causal), whole, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_inputs_are_the_same_every_time(distribution: Distribution) -> None:
    first, again, other = (
        attention_inputs(1, 2, 6, 8, 16, dtype=torch.bfloat16, distribution=distribution, seed=seed) for seed in (0, 0, 1)
    )
    assert [tuple(x.shape) for x in first] == [(1, 2, 6, 16), (1, 2, 8, 16), (1, 2, 8, 16)]
    assert all(x.is_contiguous() and x.dtype == torch.bfloat16 and bool(x.isfinite().all()) for x in first)
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_hard_inputs_have_their_property() -> None:
    def logits(distribution: Distribution) -> torch.Tensor:
        q, k, _ = attention_inputs(1, 1, 64, 64, 64, dtype=torch.float32, distribution=distribution)
        return (q @ k.mT / 8)[0, 0]

    assert float(logits("large-logit").max()) > 88.8  # e^88.8 overflows float32
    assert float(logits("constant-row").std(dim=1).max()) < 1e-5
    masked = logits("masked")
    assert float((masked[:, 32:].amin(dim=1) - masked[:, :32].amax(dim=1)).min()) > 87.3 + 10  # e^-87.3 is float32's smallest


@pytest.mark.parametrize(
    ("name", "dtype", "allowed"),
    [("standard", "float16", 2e-3), ("flash1", "float16", 6e-3), ("flash1", "bfloat16", 3e-2), ("flash2", "float32", 1e-5)],
)
def test_a_case_builds_work_that_returns_its_output_alone(name: str, dtype: str, allowed: float) -> None:
    values = {**DEFAULTS, "dtype": dtype, "block_m": 16, "block_n": 32, "sram_elements": None}
    work = find_case(name).build(device="cpu", **values)
    with interpret_kernels():
        output = work.run()
    assert work.tolerance == pytest.approx(allowed)
    assert isinstance(output, torch.Tensor)
    assert work.reference is not None
    expected = work.reference()
    assert expected.dtype == torch.float64
    assert float((output - expected).norm() / expected.norm()) <= allowed
    assert [tuple(x.shape) for x in work.inputs] == [(1, 2, 20, 16)] * 3
