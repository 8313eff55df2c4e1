"""`attention` without a GPU: output and gradients interpreted.

The tests also cover the choice of backend and refusals.
"""

from __future__ import annotations

import math

import pytest
import torch

import ioaware.kernels.attention
from ioaware.errors import UsageError
from ioaware.kernels.attention.dispatch import attention, choose
from ioaware.kernels.attention.hopper.forward import refusal_reason
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.poison import Poison

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def draw(heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, dtype: torch.dtype = torch.float32) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, heads, seq_len, head_dim), (2, kv_heads, kv_len, head_dim), (2, kv_heads, kv_len, head_dim))
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return q, k, v


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> torch.Tensor:
    """Return attention in float64 by autograd's operators, with grouped heads."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.transpose(-1, -2) * scale
    if causal:
        seen = torch.ones(s.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        s = s.masked_fill(~seen, -1e300)  # finite, so that rows that see no key have gradients to be zeroed
        return (torch.softmax(s, -1) * seen) @ v
    return torch.softmax(s, -1) @ v


def test_the_package_exports_the_function() -> None:
    """`ioaware.kernels.attention.attention` is the function in every import order.

    This is so whatever modules were imported before.
    """
    assert ioaware.kernels.attention.attention is attention
    with pytest.raises(AttributeError, match="no attribute 'attention2'"):
        _ = ioaware.kernels.attention.attention2


@pytest.mark.parametrize(
    ("heads", "kv_heads", "seq_len", "kv_len", "head_dim", "causal", "scale"),
    [
        (2, 2, 70, 40, 16, True, None),  # the first 30 rows see no key
        (4, 2, 33, 90, 40, True, 0.3),
        (3, 1, 65, 70, 72, False, -0.2),
    ],
)
def test_output_and_gradients(
    heads: int, kv_heads: int, seq_len: int, kv_len: int, head_dim: int, causal: bool, scale: float | None
) -> None:
    inputs = draw(heads, kv_heads, seq_len, kv_len, head_dim)
    gradient = torch.randn(inputs[0].shape, generator=torch.Generator().manual_seed(1))
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    expected = reference(*exact, causal, 1 / math.sqrt(head_dim) if scale is None else scale)
    expected.backward(gradient.double())

    with interpret_kernels(), Poison():
        leaves = [tensor.requires_grad_() for tensor in inputs]
        output = attention(*leaves, causal=causal, scale=scale)
        output.backward(gradient)
        alone = attention(*(tensor.detach() for tensor in leaves), causal=causal, scale=scale)
    assert relative_error(output.detach(), expected.detach()) < 1e-5
    assert torch.equal(output.detach(), alone)
    for leaf, other in zip(leaves, exact, strict=True):
        assert leaf.grad is not None
        assert other.grad is not None
        assert relative_error(leaf.grad, other.grad) < 1e-5


def test_second_derivatives_are_refused() -> None:
    leaves = [tensor.requires_grad_() for tensor in draw(1, 1, 20, 20, 16)]
    gradient = torch.ones_like(leaves[0]).requires_grad_()
    with interpret_kernels():
        (dq,) = torch.autograd.grad(attention(*leaves), leaves[:1], gradient, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        dq.sum().backward()


def test_heads_last_layout_keeps_its_strides() -> None:
    q, k, v = (tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in draw(2, 2, 20, 20, 16))
    with interpret_kernels():
        output = attention(q, k, v)
    assert output.stride() == q.stride()
    assert relative_error(output, reference(q.double(), k.double(), v.double(), False, 0.25)) < 1e-5


def test_the_backend_is_recorded_with_its_reason() -> None:
    q, k, v = draw(2, 2, 20, 20, 16)
    with interpret_kernels():
        attention(q, k, v)
        assert attention.backend == ("triton", "the Hopper kernel cannot do this: " + str(refusal_reason(q, k, v, 0.25)))
        attention(q, k, v, backend="triton")
        assert attention.backend == ("triton", "requested")
        with pytest.raises(UsageError, match="cannot do this"):
            attention(q, k, v, backend="hopper")
        with pytest.raises(UsageError, match="no backend 'cudnn'"):
            attention(q, k, v, backend="cudnn")  # pyright: ignore[reportArgumentType]
        assert attention.backend == ("triton", "requested")


def test_refusals_of_the_hopper_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = draw(2, 2, 32, 32, 64, torch.float16)
    wide = torch.zeros(2, 2, 32, 68, dtype=torch.float16)

    def why(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float = 0.125) -> str:
        return str(refusal_reason(q, k, v, scale))

    assert "no GPU" in why(q, k, v)
    assert "float32" in why(q.float(), k.float(), v.float())
    assert "multiple of 8" in why(wide, wide, wide)
    assert "positive scale" in why(q, k, v, -1.0)
    assert "k has" in why(q, wide[..., :64], v)
    assert "v has" in why(q, k, v[:, :1].expand(2, 2, 32, 64))
    assert "q has" in why(q.transpose(2, 3).contiguous().transpose(2, 3), k, v)
    assert "no GPU" in why(q[:1, :, :1], k[:1], v[:1])  # dimensions of one element may have any stride
    with pytest.raises(UsageError, match="no GPU"):
        choose(q, k, v, 0.125, "hopper")


def test_heads_that_cannot_share_keys() -> None:
    q, k, v = draw(4, 3, 20, 20, 16)
    with pytest.raises(UsageError, match="cannot share 3 key heads"):
        attention(q, k, v)
    with pytest.raises(UsageError, match="shapes do not match"):
        attention(k, q, q)
