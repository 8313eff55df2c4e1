"""The attention kernels: traced numbers equal the closed forms.

The numbers are bytes, extra memory and FLOPs.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.prediction import predict
from ioaware.result import ParamValue, Result
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace

CASES = ("standard", "flash1", "flash2")

configurations = st.fixed_dictionaries(
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


def both(case: str, params: Mapping[str, ParamValue]) -> tuple[Result, Result]:
    target = load_target(case)
    return trace(target, target.resolve(params)), predict(case, **params)


def assert_agreement(traced: Result, predicted: Result) -> None:
    assert traced.requested is not None
    assert predicted.requested is not None
    assert traced.requested.read_bytes == predicted.requested.read_bytes
    assert traced.requested.write_bytes == predicted.requested.write_bytes
    assert traced.requested.atomic_bytes == 0
    assert traced.extra_memory_bytes == predicted.extra_memory_bytes
    assert traced.assumed is None  # no torch operator runs
    assert traced.check is not None
    assert traced.check.passed


@pytest.mark.parametrize("case", CASES)
@settings(derandomize=True, deadline=None, max_examples=70)
@given(params=configurations)
def test_traced_equals_predicted(case: str, params: dict[str, ParamValue]) -> None:
    assert_agreement(*both(case, params))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("causal", [False, True])
def test_flops_equal_the_prediction_where_tiles_divide_the_sequence(case: str, causal: bool) -> None:
    params = {"heads": 2, "seq_len": 64, "kv_len": 96, "head_dim": 32, "block_m": 16, "block_n": 32, "causal": causal}
    traced, predicted = both(case, params)
    assert_agreement(traced, predicted)
    assert traced.flops == predicted.flops


@pytest.mark.parametrize("case", CASES)
def test_launches_are_the_steps_of_the_algorithm(case: str) -> None:
    traced, predicted = both(case, {"seq_len": 50, "head_dim": 24, "block_m": 16, "block_n": 16})
    for launch, step in zip(traced.launches, predicted.launches, strict=True):
        assert launch.requested is not None
        assert step.requested is not None
        assert (launch.requested.read_bytes, launch.requested.write_bytes) == (
            step.requested.read_bytes,
            step.requested.write_bytes,
        )


@pytest.mark.parametrize("case", CASES)
def test_blocks_set_from_on_chip_memory(case: str) -> None:
    assert_agreement(*both(case, {"seq_len": 70, "head_dim": 16, "sram_elements": 1500, "dtype": "float32"}))
