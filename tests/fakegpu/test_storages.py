"""Extra memory and operator traffic equal counts by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ioaware.fakegpu.aten.aten_traffic import OperatorRecorder
from ioaware.fakegpu.storages import AllocationTracker
from ioaware.result import Launch
from ioaware.tracing.poison import Poison


def extra_bytes(work: Callable[[], object]) -> int:
    with AllocationTracker() as memory:
        output = work()
    return memory.extra_bytes(output)


def operator_bytes(work: Callable[[], object]) -> list[tuple[str, int | None, int | None]]:
    launches: list[Launch] = []
    with OperatorRecorder(launches):
        work()
    traffic = [(launch.kernel, launch.requested) for launch in launches]
    return [(kernel, None if t is None else t.read_bytes, None if t is None else t.write_bytes) for kernel, t in traffic]


X = torch.ones(100)


def temporary_then_freed() -> torch.Tensor:
    scores = torch.empty(1000)
    weights = torch.empty(500, dtype=torch.float16)
    out = torch.empty(10)
    del scores, weights
    torch.empty(200)
    return out


def temporary_before_the_output() -> torch.Tensor:
    for _ in range(50):
        torch.empty(100)
    return torch.empty(1)


def grown() -> torch.Tensor:
    scratch = torch.empty(10)
    scratch.resize_(100)
    return torch.empty(5)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda: torch.empty(10), 0),
        (temporary_then_freed, 4000 + 1000),
        (temporary_before_the_output, 400 - 4),  # the peak is 400 bytes, before the output exists
        (lambda: torch.empty(100)[:10], 0),  # a view keeps, and returns, all of its storage
        (lambda: (torch.empty(10), [torch.empty(3)], {"a": torch.empty(7)}), 0),
        (lambda: X.view(10, 10).t(), 0),
        (lambda: X.view(10, 10).t().contiguous(), 0),
        (lambda: X.add_(0), 0),
        (lambda: (X + 1).sum().item(), 404),
        (lambda: torch.tensor([1.0, 2.0]) * 1, 8),
        (grown, 400),
    ],
)
def test_extra_memory_is_the_peak_less_the_output(work: Callable[[], object], expected: int) -> None:
    assert extra_bytes(work) == expected
    assert extra_bytes(work) == expected


def test_tensors_saved_for_backward_count() -> None:
    weight = torch.ones(100, requires_grad=True)

    def work() -> torch.Tensor | None:
        (weight.exp() * 2).sum().backward()
        gradient, weight.grad = weight.grad, None
        return gradient

    # at the peak: exp for backward, its gradient, the sum, its seed, and the output, which is weight's gradient
    assert extra_bytes(work) == 400 + 400 + 4 + 4


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda: X + 1, [("aten.add.Tensor", 400, 400)]),
        (lambda: X * X, [("aten.mul.Tensor", 400, 400)]),
        (lambda: torch.empty_like(X), []),
        (lambda: torch.zeros(10), [("aten.zeros.default", 0, 40)]),
        (lambda: X[3:].view(-1, 1).expand(-1, 5).permute(1, 0), []),
        (lambda: X[:10].view(-1, 1).expand(-1, 5).contiguous(), [("aten.clone.default", 40, 200)]),
        (lambda: X.double(), [("aten._to_copy.default", 400, 800)]),
        (lambda: X.to(torch.float32), []),
        (lambda: X.sum(), [("aten.sum.default", 400, 4)]),
        (lambda: X.clone().add_(1), [("aten.clone.default", 400, 400), ("aten.add_.Tensor", 400, 400)]),
        (lambda: torch.empty(100).fill_(2), [("aten.fill_.Scalar", 0, 400)]),
        (lambda: torch.empty(100).copy_(X), [("aten.copy_.default", 400, 400)]),
        (lambda: torch.add(X, 1, out=torch.empty(100)), [("aten.add.out", 400, 400)]),
        (
            lambda: torch.ones(4, 6) @ torch.ones(6, 2),
            [("aten.ones.default", 0, 96), ("aten.ones.default", 0, 48), ("aten.mm.default", 144, 32)],
        ),
        (lambda: X[0].item(), []),
        (lambda: torch.rand(8), [("aten.rand.default", 0, 32)]),
    ],
)
def test_operators_read_their_inputs_and_write_their_outputs_once(
    work: Callable[[], object], expected: list[tuple[str, int, int]]
) -> None:
    assert operator_bytes(work) == expected


def test_fresh_memory_is_poisoned_without_being_recorded() -> None:
    launches: list[Launch] = []
    with Poison(), AllocationTracker(), OperatorRecorder(launches):
        fresh = [torch.empty(4), torch.empty_like(X), torch.empty(2, 2).t(), torch.zeros(3)]
    assert [tensor.isnan().all().item() for tensor in fresh] == [True, True, True, False]
    assert [launch.kernel for launch in launches] == ["aten.zeros.default"]
