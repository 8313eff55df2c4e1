"""The compiled paper kernels on a GPU.

The tests cover tensor cores, threads, barriers and large offsets.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ioaware.kernels.attention.flash1 import flash1
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.references.inputs import DISTRIBUTIONS, Distribution, attention_inputs
from ioaware.kernels.attention.references.reference import attention_reference
from ioaware.kernels.attention.references.work import tolerance
from ioaware.kernels.attention.standard import standard
from ioaware.targets.output_check import relative_error

KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "standard": standard,
    "flash1": flash1,
    "flash2": lambda *args, **options: flash2(*args, **options)[0],
}
GIB = 2**30

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU"),
    pytest.mark.parametrize("name", KERNELS),
]


def check(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, block_m: int, block_n: int) -> None:
    output = KERNELS[name](q, k, v, causal=causal, block_m=block_m, block_n=block_n)
    assert relative_error(output, attention_reference(q, k, v, causal=causal)) <= tolerance(name, q.dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("seq_len", "kv_len", "head_dim", "block_m", "block_n"),
    [
        (512, 512, 64, 64, 64),
        (1000, 1000, 128, 128, 64),
        (300, 700, 64, 32, 256),
        (700, 300, 128, 32, 128),
        (257, 129, 32, 16, 16),
        (100, 333, 40, 24, 48),
        (130, 130, 256, 64, 64),
        (1, 1025, 96, 64, 64),
    ],
)
def test_agrees_with_float64(
    name: str, causal: bool, seq_len: int, kv_len: int, head_dim: int, block_m: int, block_n: int
) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = attention_inputs(2, 3, seq_len, kv_len, head_dim, dtype=dtype, device="cuda")
        check(name, q, k, v, causal=causal, block_m=block_m, block_n=block_n)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_agrees_in_float32(name: str, distribution: Distribution) -> None:
    q, k, v = attention_inputs(1, 2, 150, 130, 64, dtype=torch.float32, device="cuda", distribution=distribution)
    check(name, q, k, v, causal=True, block_m=32, block_n=32)


def test_reads_tensors_stored_by_token(name: str) -> None:
    q, k, v = (
        x.transpose(1, 2).contiguous().transpose(1, 2) for x in attention_inputs(2, 4, 200, 200, 64, dtype=torch.float16)
    )
    check(name, q.cuda(), k.cuda(), v.cuda(), causal=True, block_m=64, block_n=64)


def test_many_steps_agree_and_repeat(name: str) -> None:
    """flash1 rewrites O, l and m in HBM 128 times here.

    A missing barrier gives wrong or varying output.
    """
    q, k, v = attention_inputs(4, 16, 512, 2048, 64, dtype=torch.float16, device="cuda")
    check(name, q, k, v, causal=False, block_m=64, block_n=16)
    first = KERNELS[name](q, k, v, block_m=64, block_n=16)
    assert all(torch.equal(first, KERNELS[name](q, k, v, block_m=64, block_n=16)) for _ in range(5))


def test_offsets_past_31_bits(name: str) -> None:
    """A Q that spans more than 2^31 elements, and an S of more than 2^31 elements."""
    if torch.cuda.mem_get_info()[0] < 48 * GIB:
        pytest.skip("needs 48 GiB of free GPU memory")
    q, k, v = attention_inputs(1, 1, 3, 128, 16, dtype=torch.float16, device="cuda")
    far = torch.empty(2**31 + 16, dtype=torch.float16, device="cuda").as_strided((1, 1, 3, 16), (1, 1, 2**30, 1))
    far.copy_(q)
    check(name, far, k, v, causal=True, block_m=16, block_n=16)
    del far
    q, k, v = attention_inputs(1, 1, 46400, 46400, 16, dtype=torch.float16, device="cuda")
    check(name, q, k, v, causal=True, block_m=128, block_n=128)
