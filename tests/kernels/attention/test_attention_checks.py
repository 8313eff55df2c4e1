"""Refused attention arguments: the error names kernel and value.

It comes before any allocation or launch.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from triton.runtime.errors import OutOfResources

from ioaware.errors import MachineError, UsageError
from ioaware.kernels.attention.checks import Shape, check_attention
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.launching.launch import launching

BLOCKS = {"block_m": 64, "block_n": 64}


def tensors(q: tuple[int, ...] = (1, 2, 8, 16), kv: tuple[int, ...] = (1, 2, 8, 16), **options: Any) -> list[torch.Tensor]:
    return [torch.empty(shape, **{"dtype": torch.float16, **options}) for shape in (q, kv, kv)]


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None, **blocks: Any) -> str:
    with pytest.raises(UsageError) as caught:
        check_attention("flash2", q, k, v, scale=scale, **{**BLOCKS, **blocks})
    assert caught.value.what.startswith("flash2: ")
    return str(caught.value)


def test_valid_arguments_are_accepted() -> None:
    sizes = check_attention("flash2", *tensors((3, 2, 8, 16), (3, 2, 5, 16)), scale=None, **BLOCKS)
    assert sizes == Shape(batch=3, heads=2, seq_len=8, kv_len=5, head_dim=16, scale=0.25)


@pytest.mark.parametrize(
    ("q", "kv", "message"),
    [
        ((8, 16), (8, 16), "four dimensions, not q [8, 16]"),
        ((1, 2, 8, 16), (1, 1, 8, 16), "q [1, 2, 8, 16], k [1, 1, 8, 16]"),
        ((1, 2, 8, 16), (1, 2, 8, 32), "shapes do not match"),
        ((1, 2, 0, 16), (1, 2, 8, 16), "an empty dimension"),
        ((1, 2, 8, 16), (1, 2, 0, 16), "an empty dimension"),
        ((1, 2, 8, 257), (1, 2, 8, 257), "head_dim 257 is not supported"),
        ((65536, 1, 1, 16), (65536, 1, 1, 16), "a CUDA grid takes 65535 each"),
    ],
)
def test_refuses_shapes(q: tuple[int, ...], kv: tuple[int, ...], message: str) -> None:
    assert message in refusal(*tensors(q, kv))


def test_refuses_keys_and_values_of_different_shapes() -> None:
    q, k, v = tensors()
    assert "v [1, 2, 4, 16]" in refusal(q, k, v[:, :, :4])


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.float8_e4m3fn])
def test_refuses_dtypes(dtype: torch.dtype) -> None:
    assert "float16, bfloat16, float32" in refusal(*tensors(dtype=dtype))


def test_refuses_mixed_dtypes() -> None:
    q, k, v = tensors()
    assert "q float32, k float16, v float16" in refusal(q.float(), k, v)


def test_refuses_devices() -> None:
    q, k, v = tensors()
    assert "q cpu, k meta, v cpu" in refusal(q, k.to("meta"), v)
    assert "Put all three on one CUDA device" in refusal(*tensors(device="meta"))


@pytest.mark.parametrize("block", [0, -16, 1025, 16.0, True])
@pytest.mark.parametrize("name", ["block_m", "block_n"])
def test_refuses_blocks(name: str, block: object) -> None:
    assert f"{name}={block!r} cannot work" in refusal(*tensors(), **{name: block})


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_refuses_scales(scale: float) -> None:
    assert "not a finite number" in refusal(*tensors(), scale=scale)


def test_the_host_functions_check(kernel_name: str, attention: Any) -> None:
    with pytest.raises(UsageError, match=f"{kernel_name}: head_dim 257 is not supported"):
        attention(*tensors((1, 1, 4, 257), (1, 1, 4, 257)))


def test_cpu_tensors_outside_the_interpreter_are_a_machine_error() -> None:
    with pytest.raises(MachineError, match=re.escape("flash2: Triton compiles for a GPU and the tensors are on cpu")):
        flash2(*tensors())


def test_tiles_too_large_for_the_gpu_are_a_usage_error() -> None:
    with (
        pytest.raises(UsageError, match=re.escape("(shared memory: 300000 needed, 232448 available)")),
        launching("flash1", torch.device("cpu")),
    ):
        raise OutOfResources(300000, 232448, "shared memory")


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="something else"), launching("flash1", torch.device("cpu")):
        raise ValueError("something else")
