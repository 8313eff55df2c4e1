"""FLOPs of torch operators equal torch's counter, less what a causal mask saves."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from ioaware.fakegpu.aten.aten_flops import operator_flops, operator_products


class Counted(TorchDispatchMode):
    """Add up the FLOPs of all operators."""

    flops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        outcome = func(*args, **(kwargs or {}))
        self.flops += operator_flops(func, args, kwargs or {}, outcome) or 0
        return outcome


def counted(work) -> int:
    with Counted() as mode:
        work()
    return mode.flops


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.ones(3, 5) @ torch.ones(5, 7),
        lambda: torch.mm(torch.ones(3, 5), torch.ones(5, 7), out=torch.empty(3, 7)),
        lambda: torch.addmm(torch.ones(7), torch.ones(3, 5), torch.ones(5, 7)),
        lambda: torch.ones(2, 3, 5) @ torch.ones(2, 5, 7),
        lambda: torch.baddbmm(torch.ones(2, 3, 7), torch.ones(2, 3, 5), torch.ones(2, 5, 7)),
        lambda: conv2d(torch.ones(2, 4, 9, 9), torch.ones(6, 2, 3, 3), groups=2),
        lambda: torch.ones(4) + torch.ones(4),
    ],
)
def test_it_equals_the_counter_of_torch(work) -> None:
    with FlopCounterMode(display=False) as theirs:
        work()
    assert counted(work) == theirs.get_total_flops()


def test_attention_counts_both_products_and_no_masked_score() -> None:
    q, k, v = torch.ones(2, 4, 6, 8), torch.ones(2, 4, 10, 8), torch.ones(2, 4, 10, 8)
    assert counted(lambda: scaled_dot_product_attention(q, k, v)) == 2 * 4 * 2 * 6 * 10 * 16
    assert counted(lambda: scaled_dot_product_attention(k, k, v, is_causal=True)) == 2 * 4 * 2 * 55 * 16


def test_the_gradient_of_attention_has_five_products() -> None:
    q = torch.ones(1, 1, 6, 8, requires_grad=True)
    out = scaled_dot_product_attention(q, q, q)
    assert counted(lambda: out.sum().backward()) == 5 * 2 * 6 * 6 * 8


def test_products_have_the_type_of_their_operands() -> None:
    x = torch.ones(4, 4, dtype=torch.bfloat16)
    assert operator_products(torch.ops.aten.mm.default, (x, x), {}, x) == (128, "bf16")
    assert operator_products(torch.ops.aten.add.Tensor, (x, x), {}, x) is None
