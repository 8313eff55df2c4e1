"""Sound kernels: none of them has a finding."""

from __future__ import annotations

from functools import partial

import pytest

from ioaware.gate.untrusted.examine import Untrusted, examine
from ioaware.gate.untrusted.finding import Outcome
from ioaware.targets.target import load_target
from tests.support import ROOT

FILE = ROOT / "tests" / "support" / "untrusted" / "sound.py"
VECTOR, MATRIX = {"x": "f32[n=200]"}, {"x": "f32[rows=6, cols=20]"}
PAIR, PRODUCT = {"x": "f32[n=200]", "y": "f32[n]"}, {"a": "f32[m=20, k=36]", "b": "f32[k, n=12]"}
NORM = {"x": "f32[rows=6, cols=20]", "weight": "f32[cols]", "bias": "f32[cols]"}
KERNELS: dict[str, dict[str, str]] = {
    "add": PAIR,
    "add_integers": {"x": "i32[n=200]", "y": "i32[n]"},
    "add_bfloat16": {"x": "bf16[n=200]", "y": "bf16[n]"},
    "relu_by_device_function": VECTOR,
    "relu_in_place": VECTOR,
    "relu_into": {"x": "f32[n=200]", "out": "f32[n]"},
    "relu_of_a_transposed_view": MATRIX,
    "positive": VECTOR,
    "zeros_like": VECTOR,
    "first_half": MATRIX,
    "rope": {"x": "f32[rows=6, cols=20]", "cos": "f32[rows, half=10]", "sin": "f32[rows, half]"},
    "transpose": MATRIX,
    "sum_rows": MATRIX,
    "sum_in_two_launches": MATRIX,
    "sum_by_atomics": VECTOR,
    "argmax": MATRIX,
    "cumsum": MATRIX,
    "softmax": MATRIX,
    "softmax_float16": {"x": "f16[rows=6, cols=20]"},
    "online_softmax": {"x": "f32[rows=3, cols=40]"},
    "layer_norm": NORM,
    "residual_rms_norm": {"x": "f32[rows=6, cols=20]", "residual": "f32[rows, cols]", "weight": "f32[cols]"},
    "matmul": PRODUCT,
    "matmul_float16": {"a": "f16[m=20, k=36]", "b": "f16[k, n=12]"},
    "matmul_autotuned": PRODUCT,
    "matmul_split_k": {"a": "f32[m=12, k=36]", "b": "f32[k, n=12]"},
    "triangular_matmul": {},
    "triple_by_block_pointers": MATRIX,
    "embedding": {},
    "scatter_add": {},
    "histogram": {"x": "i64[n=200]"},
    "segment_sums": {},
    "cross_entropy": {},
    "with_a_kept_workspace": MATRIX,
    "into_a_kept_output": VECTOR,
    "on_joined_streams": VECTOR,
    "joined_by_an_event": VECTOR,
    "with_torch_operators": VECTOR,
    "reraises": VECTOR,
    "silu_and_mul": PAIR,
    "cube_by_persistent_programs": VECTOR,
    "max_pool": MATRIX,
    "causal_convolution": {"x": "f32[rows=6, cols=20]", "w": "f32[cols, taps=3]"},
    "softmax_and_logsumexp": MATRIX,
    "quantise_rows": MATRIX,
    "gradient": {"x": "f32[n=200]", "dy": "f32[n]"},
}
WRITES = {"relu_in_place": ("x",), "relu_into": ("out",), "residual_rms_norm": ("residual",)}
CASES: dict[str, dict[str, int]] = {
    "flash2": {"seq_len": 32, "head_dim": 16, "block_m": 16, "block_n": 16},
    "standard": {"seq_len": 32, "head_dim": 16},
    "softmax_online": {"rows": 4, "cols": 40},
}


def test_there_are_enough_kernels() -> None:
    assert len(KERNELS) + len(CASES) >= 30


def check(kernel: str) -> None:
    spec = f"{FILE}:{kernel}"
    target = Untrusted.named(spec, KERNELS[kernel], {}, typed=True)
    found = examine(target, reference=partial(load_target, f"{spec}_reference"), writable=WRITES.get(kernel, ()))
    assert found.findings == ()
    assert found.outcome is Outcome.SOUND
    assert found.to_dict()["numbers"]["compulsory"]["write_bytes"] > 0


def test_a_sound_kernel_has_no_finding() -> None:
    check("sum_by_atomics")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_finding(kernel: str) -> None:
    check(kernel)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_cases_are_compared_with_their_own_references(case: str) -> None:
    found = examine(Untrusted.named(case, CASES[case], {}))
    assert found.findings == ()


@pytest.mark.slow
def test_a_module_is_compared_with_a_module() -> None:
    target = Untrusted.named(f"{FILE}:AffineByKernel", {"x": "f32[rows=6, cols=20]"}, {}, typed=True)
    found = examine(target, reference=partial(load_target, f"{FILE}:Affine"))
    assert found.findings == ()


@pytest.mark.slow
def test_a_random_kernel_needs_no_reference_where_its_output_is_checked_elsewhere() -> None:
    target = Untrusted.named(f"{FILE}:dropout", VECTOR, {}, typed=True)
    assert [one.rule for one in examine(target).findings] == ["wrong_output"]
    assert examine(target, output_checked_elsewhere=True).findings == ()
