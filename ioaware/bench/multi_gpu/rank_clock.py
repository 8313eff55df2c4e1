"""Time and count what one rank does between barriers of all ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ioaware.measurement.nvlink import LinkBytes, link_bytes
from ioaware.measurement.nvml import Gpu

SETTLE_S = 0.15
"""Time between the last transfer and the reading of its counters."""


@dataclass(frozen=True, slots=True)
class RankClock:
    """One rank of a run, on the GPU that is current.

    `host` is a gloo group of all ranks, which uses no link.
    """

    rank: int
    ranks: int
    host: Any
    gpu: Gpu

    @property
    def device(self) -> str:
        """Return where tensors of this rank are."""
        return f"cuda:{self.rank}"

    def barrier(self) -> None:
        """Wait until every rank's GPU has done what was queued."""
        import torch
        import torch.distributed as dist

        torch.cuda.synchronize()
        dist.barrier(group=self.host)

    def all_agree(self, mine: bool) -> bool:
        """Return whether the answer is yes on every rank."""
        import torch
        import torch.distributed as dist

        answer = torch.tensor([int(mine)])
        dist.all_reduce(answer, op=dist.ReduceOp.MIN, group=self.host)
        return bool(answer.item())

    def time_ns(self, run: Callable[[], object], calls: int) -> float:
        """Return this GPU's nanoseconds per call; all ranks begin together."""
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.barrier()
        start.record()
        for _ in range(calls):
            run()
        end.record()
        self.barrier()
        return start.elapsed_time(end) * 1e6 / calls

    def count(self, run: Callable[[], object], calls: int) -> LinkBytes:
        """Return the bytes over this GPU's links during some calls on all ranks."""
        self.barrier()
        before = link_bytes(self.gpu)
        self.barrier()
        for _ in range(calls):
            run()
        self.barrier()
        time.sleep(SETTLE_S)
        after = link_bytes(self.gpu)
        self.barrier()
        return after - before

    def idle(self, seconds: float) -> LinkBytes:
        """Return the bytes over this GPU's links while no rank does anything."""
        return self.count(lambda: time.sleep(seconds), 1)
