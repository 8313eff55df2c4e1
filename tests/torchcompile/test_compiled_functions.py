"""Functions of torch.compile: derived and traced as compiled.

They equal counts by hand.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ioaware
from ioaware.derivation.against_eager import against_eager
from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.result import Result
from ioaware.targets.target import load_target
from tests.support import ROOT
from tests.support.targets import compiled_targets as targets
from tests.support.targets.compiled_targets import COLS, ROWS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

N = ROWS * COLS
WORD = 4
COUNTS: list[tuple[Any, int, int]] = [
    # target, bytes read and written by its Triton kernels
    (targets.pointwise, 2 * N * WORD, N * WORD),
    (targets.softmax, N * 2, N * 2),
    (targets.layer_norm, 3 * N * WORD, N * WORD),  # weight and bias once a row
    (targets.rms_norm, 2 * N * WORD, N * WORD),
    (targets.row_sum, N * WORD, ROWS * WORD),
    (targets.transpose, N * WORD, N * WORD),
    (targets.cat, 2 * N * WORD, 2 * N * WORD),
    (targets.embedding, N * (8 + WORD), N * WORD),  # the index with each element
    (targets.cumsum, N * WORD, N * WORD),
    (targets.argmax, N * WORD, ROWS * 8),
    (targets.max_pool, N * WORD, N // 4 * WORD),
    (targets.var_mean, N * WORD, 2 * COLS * WORD),
    (targets.sort, ROWS * 32 * WORD, ROWS * 32 * (WORD + 8)),
    (targets.dropout, N * WORD + N // 256 * 8, N * WORD),  # the seed, 8 bytes, in each program of 256 elements
    (targets.linear, ROWS * ROWS * WORD, ROWS * ROWS * WORD),  # relu alone: the product is the library's
    (targets.in_place, N * WORD, N * WORD),
    (targets.branch_on_device, N * WORD, N * WORD),
    (targets.at_an_offset, N * WORD, N * WORD),  # no copy: the compiler has seen the offset
    (targets.broken_graph, 2 * N * WORD, 2 * N * WORD),  # what is empty is not read
    (targets.compiled_module, 2 * N * WORD, N * WORD),  # gelu and the bias, with each element
]


AFTERWARDS = """
import ioaware, torch
from tests.support.targets import compiled_targets

assert ioaware.{verb}(compiled_targets.pointwise).requested
compiled = torch.compile(lambda x: x + torch.is_autocast_enabled(x.device.type), fullgraph=True, backend="eager")
assert compiled(torch.ones(3)).tolist() == [1, 1, 1]
"""


@pytest.mark.parametrize("verb", ["derive", "trace"])
def test_what_is_compiled_afterwards_is_not_changed(verb: str) -> None:
    """The compiler, loaded for the fake GPU, keeps tables of torch's functions."""
    code = AFTERWARDS.format(verb=verb)
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]


@pytest.mark.parametrize(("target", "read_bytes", "write_bytes"), COUNTS)
def test_derive_and_trace_equal_the_count_by_hand(target: Any, read_bytes: int, write_bytes: int) -> None:
    derived, traced = ioaware.derive(target, check=True), ioaware.trace(target)
    for result in (derived, traced):
        assert result.requested is not None
        assert (result.requested.read_bytes, result.requested.write_bytes) == (read_bytes, write_bytes)
        assert all(launch.kernel.startswith("triton_") for launch in result.launches if launch.origin == "triton")
    assert derived.exact
    assert not any("WRONG" in note for launch in derived.launches for note in launch.notes)


def test_what_torch_found_before_does_not_matter() -> None:
    """torch asks for a GPU that runs Triton once in a process.

    Here it does so without a fake GPU.
    """
    from torch.utils._triton import has_triton

    has_triton.cache_clear()
    before = has_triton()
    assert ioaware.derive(targets.pointwise).exact
    assert has_triton() == before


@pytest.mark.parametrize("target", [targets.index_add, targets.cross_entropy, targets.large_layer_norm, targets.under_autocast])
def test_derive_equals_trace(target: Any) -> None:
    """Kernels of several launches, whose split a count by hand would only repeat."""
    derived, traced = ioaware.derive(target, check=True), ioaware.trace(target)
    assert derived.exact
    assert _moved(derived) == _moved(traced)


def _moved(result: Result) -> list[tuple[str, int | None, int | None]]:
    return [(one.kernel, one.requested.read_bytes, one.requested.write_bytes) for one in result.launches if one.requested]


def test_dynamic_shapes_give_a_formula() -> None:
    """A reduction of unknown length reads its row three times.

    It reads for the maximum, the sum and the quotient.
    """
    derived = ioaware.derive(targets.dynamic_softmax)
    assert derived.exact
    assert set(derived.symbols or ()) == {"rows", "cols"}
    assert derived.evaluate(rows=100, cols=300)["read_bytes"] == 3 * 100 * 300 * 2
    there = ioaware.trace(targets.dynamic_softmax, rows=10, cols=48).requested
    assert there is not None
    assert derived.evaluate(rows=10, cols=48)["read_bytes"] == there.read_bytes


def test_static_shapes_are_said_to_be_specialised() -> None:
    derived = ioaware.derive(targets.pointwise)
    assert not derived.symbols
    assert any(note.startswith("cols specialised to") for note in derived.notes)
    assert any("derived with XBLOCK=" in note for note in derived.launches[-1].notes), "the result says its configuration"


def test_a_compiled_target_is_named_where_no_line_of_it_decides(tmp_path: Path) -> None:
    """No line of the function is behind the compiler's guards.

    A line of ioaware would help no user.
    """
    file = tmp_path / "decorated.py"
    file.write_text("import torch\n\n@torch.compile\ndef summed(x):\n    return x.relu().sum(-1)\n", encoding="utf-8")
    command = [sys.executable, "-m", "ioaware", "derive", f"{file}:summed", "-p", "x=f32[rows=8, cols=64]"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "rows specialised to 8 (branch at decorated.py:summed)" in result.stdout + result.stderr


def test_eager_runs_torchs_operators_and_the_compiler_saves_the_rest() -> None:
    result = ioaware.derive(targets.pointwise, eager=True)
    assert [launch.kernel for launch in result.launches] == ["aten.relu.default", "aten.mul.Tensor", "aten.add.Tensor"]
    assert not result.exact
    assert result.assumed is not None
    assert result.assumed.read_bytes == (1 + 2 + 1) * N * WORD
    both = against_eager(load_target(targets.pointwise), {"rows": ROWS, "cols": COLS}).to_dict()
    assert both["saved"]["read_bytes"] == 2 * N * WORD, "four operands became two"
    assert both["saved"]["total_bytes"] == 4 * N * WORD
    assert (both["eager"]["library_launches"], both["compiled"]["triton_launches"]) == (3, 1)


def test_a_file_of_the_compiler_is_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.graph import GraphLowering

    written: list[str] = []
    monkeypatch.setattr(GraphLowering, "save_output_code", written.append)
    compiled = ioaware.derive(targets.layer_norm)
    file = tmp_path / "output_code.py"
    file.write_text(written[0])
    for result in (ioaware.derive(f"{file}:call"), ioaware.trace(f"{file}:call")):
        assert result.exact
        assert _moved(result) == [launch for launch in _moved(compiled) if launch[0].startswith("triton_")]


def test_a_file_without_inputs_takes_them_as_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.graph import GraphLowering

    written: list[str] = []
    monkeypatch.setattr(GraphLowering, "save_output_code", written.append)
    compiled = ioaware.derive(targets.pointwise)
    file = tmp_path / "output_code.py"
    file.write_text(written[0].partition("def get_args")[0])
    names = [param.name for param in load_target(f"{file}:call").params]
    given = dict.fromkeys(names, f"f32[rows={ROWS}, cols={COLS}]")
    for result in (ioaware.derive(f"{file}:call", **given), ioaware.trace(f"{file}:call", **given)):
        assert _moved(result) == [launch for launch in _moved(compiled) if launch[0].startswith("triton_")]
    given[names[0]] = f"f32[{ROWS}, {COLS + 1}]"
    with pytest.raises(UsageError, match=f"was compiled for .{ROWS}, {COLS}."):
        ioaware.derive(f"{file}:call", **given)
    with pytest.raises(UsageError, match=f"{names[0]} has no default"):
        ioaware.derive(f"{file}:call")


def test_a_reduction_takes_the_halved_blocks_that_the_tuner_adds() -> None:
    """The tuner on a GPU halves the block where registers limit occupancy."""
    target = load_target("tests.support.targets.compiled_targets:large_layer_norm")
    plain = derive(target, target.resolve({}))
    kernel, block = plain.launches[0].kernel, dict(plain.launches[0].configuration or {})["R0_BLOCK"]
    assert isinstance(block, int)
    halved = derive(target, target.resolve({}), autotune={f"{kernel}:R0_BLOCK": block // 4}, check=True)
    assert dict(halved.launches[0].configuration or {})["R0_BLOCK"] == block // 4
    for name in ("read_bytes", "write_bytes", "read_sector_bytes", "write_sector_bytes"):
        assert getattr(halved.requested, name) == getattr(plain.requested, name)
    assert not any("WRONG" in note for note in halved.launches[0].notes)
    with pytest.raises(UsageError, match="no configuration with"):
        derive(target, target.resolve({}), autotune={f"{kernel}:R0_BLOCK": 2 * block})


def test_kernels_chosen_by_time_are_refused() -> None:
    with pytest.raises(UsageError, match="by their time on a GPU"):
        ioaware.derive(targets.tuned_by_time)


@pytest.mark.parametrize("target", [targets.norm_gradients, targets.dynamic_gradients, targets.module_gradients])
def test_gradients_are_those_of_the_compiled_backward(target: Any) -> None:
    """Derived bytes equal traced ones.

    The traced run gives the gradients of the plain function.
    """
    derived, traced = ioaware.derive(target, check=True), ioaware.trace(target)
    assert derived.exact
    assert _moved(derived) == _moved(traced)
    assert len([launch for launch in derived.launches if launch.origin == "triton"]) >= 2
    assert traced.check is None or traced.check.passed


def test_gradients_of_a_pointwise_function_by_hand() -> None:
    derived = ioaware.derive(targets.pointwise_gradients)
    assert [(reads, writes) for _, reads, writes in _moved(derived)] == [(N * WORD, N * WORD), (2 * N * WORD, N * WORD)]


def test_gradients_with_dynamic_shapes_give_a_formula() -> None:
    derived, rows, cols = ioaware.derive(targets.dynamic_gradients), 10, 48
    traced = ioaware.trace(targets.dynamic_gradients, rows=rows, cols=cols).requested
    assert traced is not None
    assert derived.evaluate(rows=rows, cols=cols)["read_bytes"] == traced.read_bytes


def test_matmuls_are_not_padded_and_the_result_says_so() -> None:
    derived = ioaware.derive(targets.odd_matmul)
    assert any("pad a matmul" in note for note in derived.notes)


def test_a_torch_without_guard_marks_is_derived_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch 2.11, whose guards need no mark."""
    from torch._dynamo import guards

    monkeypatch.delattr(guards, "skip_guard_check_spec", raising=False)
    derived = ioaware.derive(targets.rms_norm)
    assert derived.requested is not None
    assert derived.requested.write_bytes == N * WORD


def test_a_torch_built_with_cuda_needs_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a build looks for a driver when it makes a fake tensor on a GPU."""

    def no_driver(device: Any) -> None:
        raise RuntimeError(f"Found no NVIDIA driver on your system: {device}")

    monkeypatch.setattr("torch._subclasses.fake_tensor.init_gpu_context", no_driver)
    assert ioaware.derive(targets.softmax).exact


def test_attention_that_a_gpu_computes_alike_is_exact() -> None:
    assert ioaware.derive(targets.fused_attention).exact
    assert ioaware.trace(targets.fused_attention).exact


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (targets.double_attention, "of float64"),
        (targets.dropout_attention, "with dropout"),
        (targets.masked_attention, "with a mask"),
        (targets.odd_attention, "with head dimension 60"),
        (targets.attention_gradients, "with gradients"),
        (targets.encoder_layer_step, "with gradients"),
    ],
)
def test_attention_as_on_a_cpu_is_not_exact(target: Any, reason: str) -> None:
    derived = ioaware.derive(target)
    assert not derived.exact
    assert any(f"attention as on a CPU ({reason})" in note for note in derived.notes)


def test_traced_attention_as_on_a_cpu_is_not_exact() -> None:
    assert not ioaware.trace(targets.double_attention).exact
