"""Autocast on the fake GPU gives the dtypes of a GPU, in derive and in trace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as functional

import ioaware
from ioaware.fakegpu.aten.aten_traffic import OperatorRecorder
from ioaware.fakegpu.autocast import OUTSIDE_OF_THE_HEADER, policies
from ioaware.fakegpu.fake_cuda import cuda_on_cpu
from ioaware.result import Launch
from tests.support.targets import autocast_targets as targets

WIDE, LOW = torch.float32, torch.bfloat16
TYPES = [
    ("matmul", lambda x, low: x @ x, LOW),
    ("linear", lambda x, low: functional.linear(x, low), LOW),
    ("einsum", lambda x, low: torch.einsum("ij,jk->ik", x, x), LOW),
    ("attention", lambda x, low: functional.scaled_dot_product_attention(x[None], x[None], x[None]), LOW),
    ("exp", lambda x, low: low.exp(), WIDE),
    ("softmax", lambda x, low: low.softmax(-1), WIDE),
    ("softmax with a type", lambda x, low: low.softmax(-1, dtype=LOW), LOW),
    ("norm", lambda x, low: low.norm(2), WIDE),
    ("sum", lambda x, low: low.sum(), WIDE),
    ("layer norm", lambda x, low: functional.layer_norm(low, (8,)), WIDE),
    ("widest", lambda x, low: torch.addcmul(x, low, low), WIDE),
    ("widest of low ones", lambda x, low: torch.addcmul(low, low, low), LOW),
    ("not on a list", lambda x, low: low + low, LOW),
    ("double", lambda x, low: x.double() @ x.double(), torch.float64),
]


@pytest.mark.parametrize(("operation", "expected"), [case[1:] for case in TYPES], ids=[case[0] for case in TYPES])
def test_the_type_of_an_operator_is_that_of_a_gpu(operation: Any, expected: torch.dtype) -> None:
    with cuda_on_cpu(), torch.autocast("cuda", dtype=LOW):
        x = torch.ones(8, 8, device="cuda")
        assert operation(x, x.to(LOW)).dtype == expected


def test_a_region_has_its_state_and_ends() -> None:
    with cuda_on_cpu():
        x = torch.ones(8, 8, device="cuda")
        with torch.autocast("cuda", dtype=LOW):
            assert torch.is_autocast_enabled("cuda")
            assert torch.get_autocast_dtype("cuda") == LOW
            with torch.autocast("cuda", enabled=False):
                assert (x @ x).dtype == WIDE
            with torch.autocast("cuda", dtype=torch.float16):
                assert (x @ x).dtype == torch.float16
            assert (x @ x).dtype == LOW
            with pytest.raises(RuntimeError, match="unsafe to autocast"):
                functional.binary_cross_entropy(x, x)
        assert (x @ x).dtype == WIDE
        with torch.autocast("cpu"):
            assert torch.is_autocast_enabled("cpu")
            assert (x @ x).dtype == WIDE, "host code has its tensors on the GPU"


@pytest.mark.parametrize(("cached", "casts"), [(True, 3), (False, 4)])
def test_a_weight_is_cast_once_in_a_region(cached: bool, casts: int) -> None:
    """The input is cast for each product.

    A parameter is cast once, unless the region has no cache.
    """
    launches: list[Launch] = []
    with cuda_on_cpu():
        weight, x = torch.nn.Parameter(torch.ones(8, 8)), torch.ones(8, 8)
        with torch.autocast("cuda", cache_enabled=cached), OperatorRecorder(launches):
            functional.linear(functional.linear(x, weight).float(), weight)
        assert sum(launch.kernel == "aten._to_copy.default" for launch in launches) == casts + 1, (
            "one more cast of the result to float32"
        )
        launches.clear()
        with torch.autocast("cuda", cache_enabled=cached), OperatorRecorder(launches):
            functional.linear(x, weight)
        assert sum(launch.kernel == "aten._to_copy.default" for launch in launches) == 2, "a new region casts again"


def test_every_operator_of_the_installed_torch_has_a_policy() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    assert {f"aten::{name}" for name in policies()} == {name for name in registered if name != "aten::_cudnn_rnn"}
    assert len(registered) > 100
    assert policies()["mm"] == "LOWER_PRECISION_FP"
    assert policies()["softmax.int"] == "FP32_SET_OPT_DTYPE"
    assert policies().keys() >= OUTSIDE_OF_THE_HEADER.keys()


def test_a_torch_built_with_cuda_has_more_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that PyTorch 2.11 registers only in its builds with CUDA."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    with_cuda = [*registered, "aten::_cudnn_rnn", "aten::norm.names_ScalarOpt_dim"]
    monkeypatch.setattr(torch._C, "_dispatch_get_registrations_for_dispatch_key", lambda _: with_cuda)
    assert policies()["norm.names_ScalarOpt_dim"] == "APPEND_DTYPE"
    assert "_cudnn_rnn" not in policies()


N = 64
ELEMENTS = N * N


@pytest.mark.parametrize(
    ("target", "copied"),
    [
        (targets.product, [2]),
        (targets.outside, [4]),
        (targets.custom_function, [2, 2, 2, 2]),
        (targets.checkpointed, [2, 2]),
        (targets.set_and_left, [4]),
    ],
)
def test_derive_and_trace_copy_the_types_of_a_gpu(target: Any, copied: list[int]) -> None:
    for result in (ioaware.derive(target, n=N), ioaware.trace(target, n=N)):
        kernels = [launch.requested for launch in result.launches if launch.origin == "triton"]
        assert [(moved.read_bytes, moved.write_bytes) for moved in kernels if moved] == [
            (ELEMENTS * itemsize, ELEMENTS * itemsize) for itemsize in copied
        ]
        assert result.exact
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_default_device().type == "cpu"
    assert not torch.is_autocast_enabled("cuda")
    assert not torch.backends.cuda.matmul.allow_tf32


def test_the_librarys_product_reads_and_writes_half_precision() -> None:
    """Two casts of 64 x 64, then the product.

    Both operands are one tensor, cast twice.
    """
    for result in (ioaware.derive(targets.product, n=N), ioaware.trace(targets.product, n=N)):
        moved = {launch.kernel: launch.requested for launch in result.launches if launch.origin == "torch"}
        product = moved["aten.mm.default"]
        assert product is not None
        assert (product.read_bytes, product.write_bytes) == (2 * ELEMENTS * 2, ELEMENTS * 2)
