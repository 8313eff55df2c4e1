"""Host code's use of launches, pointers and operators is traced as it is derived."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

import ioaware
from ioaware.capture.capture import DEFAULT_GPU
from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import ConfigurationError
from ioaware.targets.loading import load_file
from ioaware.tracing.runnable_configurations import Configurations
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/host_code_targets.py"

OPERATOR_FILE = """
import torch
import triton
import triton.language as tl

library = torch.library.Library("ioaware_test", "DEF")
library.define("doubled(Tensor x) -> Tensor")


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * 2, lanes < n)


def on_cuda(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


library.impl("doubled", on_cuda, "CUDA")
library.impl("doubled", lambda x: x * 2, "CPU")
library.impl("doubled", torch.empty_like, "Meta")


def doubled(n: int = 100):
    return torch.ops.ioaware_test.doubled(torch.ones(n, device="cuda"))
"""


@pytest.mark.parametrize(
    "name",
    [
        *("kept_kernel", "registers", "wrapped", "own_autotuner", "operator_with_a_fake", "operator_for_cuda"),
        *("optional_bias", "kept_by_an_object", "launched_from_threads"),
        *("converted_twice", "converted_back", "tied_and_converted"),
        "grid_of_a_tensor",
        *("on_another_stream", "counted_in_the_environment", "drawn_from_the_system"),
    ],
)
def test_traced_bytes_equal_derived_ones(name: str) -> None:
    derived, traced = ioaware.derive(f"{TARGETS}:{name}", n=100), ioaware.trace(f"{TARGETS}:{name}", n=100)
    assert derived.requested is not None
    assert traced.requested is not None
    assert traced.requested.read_bytes == derived.requested.read_bytes
    assert traced.requested.write_bytes == derived.requested.write_bytes
    kernels = [[launch.kernel for launch in result.launches if launch.origin == "triton"] for result in (derived, traced)]
    assert kernels[0] == kernels[1]


def test_what_host_code_keeps_reaches_no_later_run() -> None:
    """The first launch has one program, the kernel kept from it two."""
    results = [verb(f"{TARGETS}:kept_by_an_object", n=100) for verb in (ioaware.trace, ioaware.derive, ioaware.trace)]
    reads = [result.requested.read_bytes for result in results if result.requested]
    assert reads == [4 * (64 + 100)] * 3


def test_a_configuration_needs_a_choice() -> None:
    """As in a derivation; the kernel's own constexpr is none."""
    for verb in (ioaware.derive, ioaware.trace):
        with pytest.raises(UsageError, match="launches no autotuned kernel, so BLOCK cannot be chosen"):
            verb(f"{TARGETS}:wrapped", config={"BLOCK": 32})
        assert "BLOCK=128" in verb(f"{TARGETS}:own_autotuner", config={"BLOCK": 128}).launches[-1].notes[0]


def test_a_pointer_into_a_tensor_is_checked_against_its_storage() -> None:
    with pytest.raises(UsageError, match="past x"):
        ioaware.trace(f"{TARGETS}:wrapped_and_beyond", n=100)


def test_a_file_that_defines_operators_is_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "operators.py"
    file.write_text(OPERATOR_FILE, encoding="utf-8")
    for verb in (ioaware.derive, ioaware.trace, ioaware.derive):
        result = verb(f"{file}:doubled")
        assert result.requested is not None
        assert (result.requested.read_bytes, result.requested.write_bytes) == (400, 400)


def test_a_configuration_that_does_not_compile_is_passed_over() -> None:
    traced = ioaware.trace(f"{TARGETS}:uncompilable_configuration", n=100)
    (note,) = (note for note in traced.launches[-1].notes if note.startswith("autotuned over"))
    assert "traced with BLOCK=128" in note
    assert "BLOCK=48, num_warps=4, num_stages=3 is passed over: uncompilable_kernel does not compile" in note
    with pytest.raises(UsageError, match="wrong_kernel runs with none of its 3 configurations"):
        ioaware.trace(f"{TARGETS}:only_uncompilable_configurations", n=100)


@pytest.mark.parametrize(("shared_bytes", "runs"), [(232_448, True), (232_449, False)])
def test_a_configuration_with_too_much_shared_memory_is_passed_over(shared_bytes: int, runs: bool) -> None:
    kernel = load_file(TARGETS).uncompilable_kernel.fn
    code = SimpleNamespace(metadata=SimpleNamespace(shared=shared_bytes))
    with nullcontext() if runs else pytest.raises(ConfigurationError, match="bytes of shared memory"):
        Configurations(DEFAULT_GPU).check(kernel, {"BLOCK": 128}, lambda: code)


@pytest.mark.parametrize(("name", "programs"), [("tall_grid", "70,000 programs along y"), ("wide_grid", "3,900,000,000")])
def test_a_grid_beyond_the_limits_of_cuda_is_refused(name: str, programs: str) -> None:
    with pytest.raises(UsageError, match=f"CUDA cannot launch it: its grid has {programs}"):
        ioaware.trace(f"{TARGETS}:{name}")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("compiled_nowhere", "global_kernel does not compile for cuda:90: .* global variable FACTOR"),
        ("too_much_shared_memory", "a program needs 262,144 bytes of shared memory"),
        ("unknown_option", "add_kernel has no parameter or launch option .*matrix_instr_nonkdim"),
    ],
)
def test_a_kernel_that_no_gpu_runs_is_noted(name: str, reason: str) -> None:
    traced = ioaware.trace(f"{SUPPORT / 'targets/interpreted_targets.py'}:{name}")
    assert not traced.exact
    for launch in (launch for launch in traced.launches if launch.origin == "triton"):
        (note,) = launch.notes
        assert re.match(f"only the interpreter runs this launch: .*{reason}", note)
        assert not launch.exact
