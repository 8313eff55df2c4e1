"""Cases beyond the forward papers: closed form, derived formula and traced bytes agree, and outputs match float64.

Each closed form was written from the theory. Traces check the output, so gradients are held against the float64 reference.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.derivation.derive import derive
from ioaware.prediction import predict
from ioaware.result import ParamValue, Result
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace

ATTENTION = st.fixed_dictionaries(
    {
        "batch": st.sampled_from([1, 1, 2]),
        "heads": st.sampled_from([1, 1, 2]),
        "seq_len": st.integers(1, 24),
        "kv_len": st.none() | st.integers(1, 24),
        "head_dim": st.integers(16, 40),
        "dtype": st.sampled_from(["float16", "float32"]),
        "causal": st.booleans(),
        "block_m": st.integers(7, 36),
        "block_n": st.integers(7, 36),
    }
)
BACKWARD = ("standard_bwd", "flash1_bwd", "flash2_bwd", "flash2_bwd_atomic")


def moved(result: Result) -> tuple[int | None, int | None, int | None]:
    assert result.requested is not None
    return result.requested.read_bytes, result.requested.write_bytes, result.requested.atomic_bytes


def assert_agreement(case: str, params: Mapping[str, ParamValue]) -> None:
    """The traced bytes, launch by launch, the extra memory and the output are the algorithm's."""
    target = load_target(case)
    traced, predicted = trace(target, target.resolve(params)), predict(case, **params)
    assert moved(traced) == moved(predicted)
    for launch, step in zip(traced.launches, predicted.launches, strict=True):
        assert launch.requested is not None
        assert step.requested is not None
        seen, expected = launch.requested, step.requested
        assert (seen.read_bytes, seen.write_bytes, seen.atomic_bytes) == (
            expected.read_bytes,
            expected.write_bytes,
            expected.atomic_bytes,
        ), step.kernel
    assert traced.extra_memory_bytes == predicted.extra_memory_bytes
    assert traced.assumed is None  # nothing is left to torch
    assert traced.check is not None
    assert traced.check.passed


def assert_derived(case: str, params: Mapping[str, ParamValue], sizes: Mapping[str, range], draws: int = 20) -> None:
    """One formula, derived once and exact, is the closed form at random sizes, where its conditions admit them."""
    target = load_target(case)
    result = derive(target, target.resolve(params), machine_code=False)
    assert result.exact, result.notes
    assert moved(result) == moved(predict(case, **params))
    draw = random.Random(0)
    for _ in range(draws):
        at = {name: draw.choice(values) for name, values in sizes.items()}
        found = result.evaluate(**at)
        assert (found["read_bytes"], found["write_bytes"], found["atomic_bytes"]) == moved(predict(case, **{**params, **at})), (
            at
        )


@pytest.mark.parametrize("case", BACKWARD)
@settings(derandomize=True, deadline=None, max_examples=12)
@given(params=ATTENTION)
def test_traced_equals_predicted(case: str, params: dict[str, ParamValue]) -> None:
    assert_agreement(case, params)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("case", BACKWARD)
def test_derived_equals_predicted(case: str, causal: bool) -> None:
    params = {"seq_len": 100, "kv_len": 130, "head_dim": 48, "causal": causal, "block_m": 32, "block_n": 20}
    sizes = {"batch": range(1, 5), "heads": range(1, 5), "seq_len": range(2, 700), "kv_len": range(129, 256)}
    assert_derived(case, params, sizes)


@pytest.mark.parametrize("case", BACKWARD)
def test_blocks_set_from_on_chip_memory(case: str) -> None:
    assert_agreement(case, {"seq_len": 70, "head_dim": 16, "sram_elements": 1500, "dtype": "float32"})
