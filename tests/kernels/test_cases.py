"""All other cases: closed form, derived formula and traced bytes agree.

Outputs match float64.

Each closed form was written from the theory. Traces check the output, gradients included.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.cases import CASES
from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.prediction import predict
from ioaware.result import ParamValue
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support.agreement import assert_agreement, bytes_of

ATTENTION = st.fixed_dictionaries(
    {
        "batch": st.sampled_from([1, 1, 2]),
        "heads": st.sampled_from([1, 1, 2]),
        "seq_len": st.integers(2, 24),  # with one visible key the gradient is zero and has no relative error
        "kv_len": st.none() | st.integers(2, 24),
        "head_dim": st.integers(16, 40),
        "dtype": st.sampled_from(["float16", "float32"]),
        "causal": st.booleans(),
        "block_m": st.integers(7, 36),
        "block_n": st.integers(7, 36),
        "window": st.integers(1, 2),
        "global_blocks": st.integers(1, 2),
        "dropout_percent": st.sampled_from([0, 10, 50]),
    }
)
GROUPED = st.fixed_dictionaries(
    {
        "batch": st.sampled_from([1, 1, 2]),
        "heads": st.just(4),
        "kv_heads": st.sampled_from([1, 2, 4, None]),
        "seq_len": st.sampled_from([1, 1, 3, 14]),
        "kv_len": st.integers(2, 40),
        "head_dim": st.integers(16, 40),
        "dtype": st.sampled_from(["float16", "float32"]),
        "causal": st.booleans(),
        "block_m": st.integers(7, 36),
        "block_n": st.integers(7, 36),
        "splits": st.sampled_from([2, 3, 7]),
    }
)
SOFTMAX = st.fixed_dictionaries(
    {
        "rows": st.integers(1, 9),
        "cols": st.integers(2, 90),
        "dtype": st.sampled_from(["float16", "float32"]),
        "block_n": st.integers(7, 40),
    }
)
BACKWARD = ("standard_bwd", "flash1_bwd", "flash2_bwd", "flash2_bwd_atomic", "small_cache_bwd")
FORWARD = (
    "flash_lse", "logsoftmax_attention", "logsoftmax_linear", "chunked", "square_tiling", "online_rowwise", "flash_rowwise",
    "block_sparse",
)  # fmt: skip
GROUPED_CASES = ("gqa", "gqa_packed", "gqa_bwd", "split_kv", "split_kv_packed")
DECODER = tuple(name for name in CASES if name.startswith("decoder"))
SOFTMAX_CASES = tuple(name for name in CASES if name.startswith("softmax"))


def params_of(case: str, params: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    """Return those of the parameters that the case has."""
    names = {param.name for param in CASES[case].params}
    return {name: value for name, value in params.items() if name in names}


def assert_derived(case: str, params: Mapping[str, ParamValue], sizes: Mapping[str, range], draws: int = 20) -> None:
    """Check that one exact formula equals the closed form at random sizes.

    Its conditions admit the sizes.
    """
    target = load_target(case)
    result = derive(target, target.resolve(params), machine_code=False)
    assert result.exact, result.notes
    assert bytes_of(result) == bytes_of(predict(case, **params))
    draw = random.Random(0)
    for _ in range(draws):
        at = {name: draw.choice(values) for name, values in sizes.items()}
        found = result.evaluate(**at)
        assert (found["read_bytes"], found["write_bytes"], found["atomic_bytes"]) == bytes_of(
            predict(case, **{**params, **at})
        ), at


@pytest.mark.parametrize("case", BACKWARD + FORWARD + DECODER)
@settings(derandomize=True, deadline=None, max_examples=8)
@given(params=ATTENTION)
def test_attention_traced_equals_predicted(case: str, params: dict[str, ParamValue]) -> None:
    assert_agreement(case, params_of(case, params))


@pytest.mark.parametrize("case", GROUPED_CASES)
@settings(derandomize=True, deadline=None, max_examples=6)
@given(params=GROUPED)
def test_grouped_traced_equals_predicted(case: str, params: dict[str, ParamValue]) -> None:
    assert_agreement(case, params_of(case, params))


@pytest.mark.parametrize("case", SOFTMAX_CASES)
@settings(derandomize=True, deadline=None, max_examples=6)
@given(params=SOFTMAX)
def test_softmax_traced_equals_predicted(case: str, params: dict[str, ParamValue]) -> None:
    assert_agreement(case, params_of(case, params))


def test_an_empty_split_writes_its_partial_result() -> None:
    """Splits beyond the last key write zeros and -inf.

    The combiner weights these with 0.
    """
    params = {"heads": 2, "seq_len": 3, "kv_len": 20, "head_dim": 16, "block_n": 16, "splits": 5}
    assert_agreement("split_kv", params)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("case", BACKWARD + FORWARD + DECODER)
def test_attention_derived_equals_predicted(case: str, causal: bool) -> None:
    given = {"seq_len": 100, "kv_len": 130, "head_dim": 48, "causal": causal, "block_m": 32, "block_n": 20}
    if (params := params_of(case, given)) == given or not causal:
        sizes = {"batch": range(1, 5), "heads": range(1, 5), "seq_len": range(2, 700), "kv_len": range(129, 256)}
        assert_derived(case, params, sizes)


@pytest.mark.parametrize("case", GROUPED_CASES)
def test_grouped_derived_equals_predicted(case: str) -> None:
    given = {
        "heads": 8,
        "kv_heads": 2,
        "seq_len": 100,
        "kv_len": 130,
        "head_dim": 48,
        "block_m": 32,
        "block_n": 20,
        "splits": 3,
    }
    assert_derived(case, params_of(case, given), {"batch": range(1, 5), "seq_len": range(2, 700), "kv_len": range(129, 256)})


@pytest.mark.parametrize("case", SOFTMAX_CASES)
def test_softmax_derived_equals_predicted(case: str) -> None:
    params = params_of(case, {"rows": 64, "cols": 1000, "block_n": 256})
    assert_derived(case, params, {"rows": range(2, 5000), "cols": range(513, 1024)})


@pytest.mark.parametrize("case", [*BACKWARD, *GROUPED_CASES, "square_tiling", "block_sparse", "chunked", "flash_rowwise"])
def test_blocks_set_from_on_chip_memory(case: str) -> None:
    assert_agreement(case, {"seq_len": 70, "head_dim": 16, "sram_elements": 1500, "dtype": "float32"})


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("case", ["flash1_bwd", "flash2_bwd", "flash2_bwd_atomic", "flash_lse", "logsoftmax_linear", "gqa_bwd"])
def test_flops_equal_the_prediction_where_tiles_divide_the_sequence(case: str, causal: bool) -> None:
    given = {"heads": 2, "seq_len": 64, "kv_len": 96, "head_dim": 32, "block_m": 16, "block_n": 32, "causal": causal}
    params = params_of(case, given)
    target = load_target(case)
    assert trace(target, target.resolve(params)).flops == predict(case, **params).flops


def test_heads_that_key_heads_do_not_divide_are_refused() -> None:
    with pytest.raises(UsageError, match="kv_heads must divide heads"):
        predict("gqa", heads=6, kv_heads=4)


SPILLING = {"logsoftmax_linear": {"block_m": 32, "block_n": 32}}
"""Cases that spill registers at the default blocks on an H200.

Each has blocks at which it does not.
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(CASES))
def test_no_register_is_spilled(case: str) -> None:
    """Spilled registers would move bytes that no formula counts."""
    target = load_target(case)
    blocks: dict[str, ParamValue] = {**SPILLING.get(case, {})}
    result = derive(target, target.resolve(blocks))
    assert [launch.kernel for launch in result.launches if launch.origin == "triton" and launch.local_bytes != 0] == []


@pytest.mark.slow
def test_spilled_registers_are_a_note() -> None:
    target = load_target("logsoftmax_linear")
    launch = derive(target, target.resolve({})).launches[0]
    assert launch.local_bytes
    assert f"{launch.local_bytes} bytes of local memory a thread" in launch.notes[-1]
