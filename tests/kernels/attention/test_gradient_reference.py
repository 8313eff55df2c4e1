"""The gradient reference against autograd in float64.

Checks of several outputs are tested too.
"""

from __future__ import annotations

import pytest
import torch

from ioaware.errors import UsageError
from ioaware.kernels.attention.references import reference
from ioaware.kernels.attention.references.reference import attention_backward_reference, attention_reference
from ioaware.targets.output_check import worst_error


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("chunk", [2**27, 4 * 7 * 3])
def test_gradients_equal_autograd(causal: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one chunk and in chunks of three rows, with more keys than queries."""
    monkeypatch.setattr(reference, "CHUNK_ELEMENTS", chunk)
    torch.manual_seed(0)
    q, do = torch.randn(2, 2, 2, 5, 4, dtype=torch.float64)
    k, v = torch.randn(2, 2, 2, 7, 4, dtype=torch.float64)
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    s = leaves[0] @ leaves[1].transpose(-1, -2) / 2
    if causal:
        s = s.masked_fill(~torch.ones(5, 7, dtype=torch.bool).tril(2), float("-inf"))
    o = torch.softmax(s, -1) @ leaves[2]
    expected = torch.autograd.grad(o, leaves, do)
    found = attention_backward_reference(q, k, v, do, causal=causal)
    assert worst_error(list(found), expected) < 1e-12
    assert worst_error([o.detach()], attention_reference(q, k, v, causal=causal)) < 1e-12


def test_the_worst_of_several_outputs_counts() -> None:
    one, two = torch.ones(3), torch.ones(4)
    assert worst_error([one, 1.5 * two], [one, two]) == pytest.approx(0.5)
    assert worst_error([one, two], one) == 0  # a single reference belongs to the first output
    with pytest.raises(UsageError):
        worst_error([one], [one, two])
    with pytest.raises(UsageError):
        worst_error([one, two, two], [one, two])
