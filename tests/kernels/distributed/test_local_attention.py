"""A rank's own work on a GPU.

Derivation runs the host code with fake CUDA tensors, and shows which kernels it launches.
"""

from __future__ import annotations

import pytest
import torch

from ioaware import derive
from ioaware.case import Work
from ioaware.kernels.attention.distributed.local_attention import Partial, attend, attend_backward
from ioaware.kernels.attention.distributed.sharding import visible_runs


def one_step(*, device: str, rank: int, source: int, backward: bool = False) -> Work:
    """Attend rank's queries to the keys of another rank, of four, in float32.

    The kernels are of plain Triton.
    """
    held = {0: [(0, 32), (224, 256)], 1: [(32, 64), (192, 224)]}
    q, o, do = (torch.empty(1, 4, 64, 32, device=device) for _ in range(3))
    kv, lse = torch.empty(2, 1, 2, 64, 32, device=device), torch.empty(1, 4, 64, device=device)
    runs = visible_runs(held[rank], held[source], 0)

    def forward() -> torch.Tensor:
        partial = Partial.empty(q)
        attend(partial, q, kv, runs, 0.1, transfers=False)
        return partial.o

    def gradients() -> tuple[torch.Tensor, torch.Tensor]:
        dq, dkv = torch.zeros_like(q), torch.zeros_like(kv)
        attend_backward(dq, dkv, (q, o, do, lse), kv, runs, 0.1, transfers=False)
        return dq, dkv

    return Work(gradients if backward else forward, inputs=(q, kv))


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "source"), [(1, 1), (0, 1)], ids=["own block", "later"])
def test_each_step_of_a_ring_is_one_call_and_one_merge(rank: int, source: int) -> None:
    launches = [one.kernel for one in derive(one_step, rank=rank, source=source).launches if one.origin == "triton"]
    assert len(launches) == 2
    assert launches[1] == "merge_kernel"


@pytest.mark.slow
def test_each_step_backward_is_one_call_of_the_gradients() -> None:
    launches = [one.kernel for one in derive(one_step, rank=1, source=0, backward=True).launches if one.origin == "triton"]
    assert launches == ["dq_kernel", "dkdv_kernel"]
