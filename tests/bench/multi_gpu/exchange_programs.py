"""What ranks do in tests of the exchange bench, on CPUs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from ioaware.bench.multi_gpu import rank_attention
from ioaware.bench.multi_gpu.exchange_points import ExchangePoint
from ioaware.bench.multi_gpu.rank_attention import Plan, measure_point
from ioaware.bench.multi_gpu.rank_clock import RankClock
from ioaware.kernels.attention.distributed.local_attention import local_forward
from ioaware.measurement.nvlink import LinkBytes
from ioaware.measurement.nvml import Gpu
from tests.support.fakes import UUID, FakeNvml


@dataclass(frozen=True, slots=True)
class CpuClock(RankClock):
    """The clock of a rank without a GPU, which counts 1,024 bytes a call."""

    @property
    def device(self) -> str:
        return "cpu"

    def barrier(self) -> None:
        dist.barrier(group=self.host)

    def time_ns(self, run: Callable[[], object], calls: int) -> float:
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e9

    def count(self, run: Callable[[], object], calls: int) -> LinkBytes:
        run()
        return LinkBytes(1024 * calls, 1024 * calls, 2048 * calls, 2048 * calls)

    def idle(self, seconds: float) -> LinkBytes:
        return LinkBytes(0, 0, 0, 0)


class OneProcess(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
        o, lse = local_forward(q, k, v, causal=causal, scale=q.shape[3] ** -0.5)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal = causal
        return o.to(q.dtype)

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor) -> Any:
        q, k, v, o, lse = ctx.saved_tensors
        gradients = rank_attention_backward(q, k, v, o, lse, do, causal=ctx.causal, scale=q.shape[3] ** -0.5)
        return (*(x.to(q.dtype) for x in gradients), None)


def rank_attention_backward(*args: Any, **options: Any) -> Any:
    from ioaware.kernels.attention.distributed.local_attention import local_backward

    return local_backward(*args, **options)


def clock(rank: int, ranks: int) -> CpuClock:
    return CpuClock(rank, ranks, dist.group.WORLD, Gpu(FakeNvml(), UUID))


def measured(rank: int, ranks: int, points: list[dict[str, Any]], names: list[str], wrong: bool = False) -> list[Any]:
    """Return the answers of this rank; `wrong` spoils the last rank's outputs."""
    rank_attention.attention = lambda q, k, v, causal: OneProcess.apply(q, k, v, causal)
    if wrong and rank == ranks - 1:
        right = rank_attention.context_parallel
        rank_attention.context_parallel = lambda *args, **options: right(*args, **options) + 1.0
    found = [measure_point(clock(rank, ranks), ExchangePoint.of(point), Plan(names, 2, True, 0.0)) for point in points]
    for answer in found:
        answer["idle"] = asdict(answer["idle"])
        for entry in answer["entries"].values():
            if "counted" in entry:
                entry["counted"] = asdict(entry["counted"])
    return found
