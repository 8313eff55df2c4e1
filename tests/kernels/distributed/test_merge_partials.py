"""The kernel that merges partial results.

Tested are its values, its bytes in the interpreter, and its derived formula.
"""

from __future__ import annotations

import pytest
import torch

from ioaware import derive, trace
from ioaware.case import Work
from ioaware.kernels.attention.distributed.merge_partials import merge_in_torch, merge_on_gpu


def operands(
    batch: int, heads: int, rows: int, head_dim: int, dtype: str, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return o, lse, o_part, lse_part; some rows see no key on one side or on both."""
    torch.manual_seed(0)
    shape = (batch, heads, rows)
    lse, lse_part = 20 * torch.randn(shape), 20 * torch.randn(shape)
    lse[:, :, ::3], lse_part[:, :, ::4] = -torch.inf, -torch.inf
    o, o_part = torch.randn(*shape, head_dim), torch.randn(*shape, head_dim).to(getattr(torch, dtype))
    seen, seen_part = (torch.isfinite(x).unsqueeze(3) for x in (lse, lse_part))
    return tuple(x.to(device) for x in (o * seen, lse, o_part * seen_part, lse_part))  # pyright: ignore[reportReturnType]


def merged(o: torch.Tensor, lse: torch.Tensor, o_part: torch.Tensor, lse_part: torch.Tensor) -> list[torch.Tensor]:
    """Return o and log-sum-exp by eq. (14) in float64.

    They come from exponentials relative to the larger log-sum-exp.
    """
    b = torch.maximum(lse, lse_part).double()
    shift = torch.where(b == -torch.inf, 0.0, b)
    e1, e2 = (lse.double() - shift).exp(), (lse_part.double() - shift).exp()
    total = torch.where(e1 + e2 == 0, 1.0, e1 + e2)
    return [(e1.unsqueeze(3) * o.double() + e2.unsqueeze(3) * o_part.double()) / total.unsqueeze(3), b + total.log()]


def merging(*, device: str, batch: int = 1, heads: int = 1, rows: int = 64, head_dim: int = 64, dtype: str = "float16") -> Work:
    o, lse, o_part, lse_part = operands(batch, heads, rows, head_dim, dtype, device)
    wanted = merged(o, lse, o_part, lse_part)[0]

    def run() -> torch.Tensor:
        merge_on_gpu(o, lse, o_part, lse_part)
        return o

    return Work(run, inputs=(o, lse, o_part, lse_part), reference=lambda: wanted, tolerance=1e-6)


@pytest.mark.parametrize("dtype", ["float16", pytest.param("float32", marks=pytest.mark.slow)])
def test_the_kernel_merges_and_moves_each_element_once(dtype: str) -> None:
    sizes = {"batch": 2, "heads": 3, "rows": 21, "head_dim": 10}
    result = trace(merging, dtype=dtype, **sizes)
    assert result.check is not None
    assert result.check.passed, result.check
    assert result.requested is not None
    rows, width = 2 * 3 * 21, 2 if dtype == "float16" else 4
    assert result.requested.read_bytes == rows * (4 * (10 + 1) + width * 10 + 4)
    assert result.requested.write_bytes == rows * 4 * (10 + 1)


@pytest.mark.slow
def test_the_formula_is_exact() -> None:
    result = derive(merging, rows=100, heads=2)
    assert result.exact, result.notes
    assert result.requested is not None
    assert result.requested.read_bytes == 200 * (4 * 65 + 2 * 64 + 4)


@pytest.mark.parametrize("order", [1, -1])
def test_on_the_cpu_torch_merges_the_same(order: int) -> None:
    first = operands(1, 2, 12, 5, "float32", "cpu")
    o, lse, o_part, lse_part = first if order == 1 else (*first[2:], *first[:2])
    wanted = merged(o, lse, o_part, lse_part)
    merge_in_torch(o, lse, o_part, lse_part)
    torch.testing.assert_close(o.double(), wanted[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(lse.double(), wanted[1], rtol=1e-5, atol=1e-6)
