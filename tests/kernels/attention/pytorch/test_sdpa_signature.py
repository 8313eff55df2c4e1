"""`scaled_dot_product_attention`: torch's signature, alignment and results.

Refusals are tested too.
"""

from __future__ import annotations

import inspect

import pytest
import torch
from torch.nn import functional

from ioaware.errors import UsageError
from ioaware.kernels.attention.pytorch.sdpa_signature import scaled_dot_product_attention
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels


def draw(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def test_the_signature_is_torchs() -> None:
    """Names, order, defaults and what only a keyword gives, as in torch's schema."""
    ours = inspect.signature(scaled_dot_product_attention).parameters.values()
    theirs = torch._C._get_schema("aten::scaled_dot_product_attention", "").arguments
    assert [(one.name, one.kind is one.KEYWORD_ONLY) for one in ours] == [(one.name, one.kwarg_only) for one in theirs]
    defaults = [one.default for one in ours if one.default is not one.empty]
    assert defaults == [one.default_value for one in theirs if one.has_default_value()]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("seq_len", "kv_len"), [(20, 20), (12, 20), (20, 12), (1, 20)])
def test_alignment_is_torchs(seq_len: int, kv_len: int, causal: bool) -> None:
    q, k, v = draw((2, 3, seq_len, 16), (2, 3, kv_len, 16), (2, 3, kv_len, 16))
    with interpret_kernels():
        o = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.4)
    expected = functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal, scale=0.4)
    assert relative_error(o, expected) < 1e-5


@pytest.mark.parametrize("leading", [(), (3,), (2, 2, 3)])
def test_leading_axes(leading: tuple[int, ...]) -> None:
    q, k, v = draw(*(((*leading, 8, 16),) * 3))
    with interpret_kernels():
        o = scaled_dot_product_attention(q, k, v)
    assert o.shape == q.shape
    assert relative_error(o, functional.scaled_dot_product_attention(q.double(), k.double(), v.double())) < 1e-5


def test_grouped_heads() -> None:
    q, k, v = draw((1, 4, 8, 16), (1, 2, 8, 16), (1, 2, 8, 16))
    with interpret_kernels():
        o = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    expected = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert relative_error(o, expected.double()) < 1e-5
    with pytest.raises(UsageError, match="4 heads and 2 key heads"):
        scaled_dot_product_attention(q, k, v)


def test_what_it_cannot_do_is_said() -> None:
    (q,) = draw((2, 2, 8, 16))
    with pytest.raises(UsageError, match="takes no mask"):
        scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(8, 8, dtype=torch.bool))
    with pytest.raises(UsageError, match=r"dropout_p is 0\.1"):
        scaled_dot_product_attention(q, q, q, dropout_p=0.1)
    with pytest.raises(UsageError, match="does not broadcast"):
        scaled_dot_product_attention(q, q[:1], q[:1])
    with pytest.raises(UsageError, match="the shapes do not match"), interpret_kernels():
        scaled_dot_product_attention(q, q, q[..., :8])
