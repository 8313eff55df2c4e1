"""Run one rank: the order is JSON on stdin, each answer a line of JSON.

The first answer describes the rank's GPU. NCCL and torch may write to stdout, so the answers go to a copy of it and stdout
itself to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from typing import Any

from ioaware.bench.multi_gpu.exchange_points import ExchangePoint
from ioaware.bench.multi_gpu.rank_clock import RankClock

LOCK_S = 60.0


def main() -> None:
    """Join the group, then measure point after point."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer, default=_plain, allow_nan=False) + "\n")

    order: dict[str, Any] = json.load(sys.stdin)
    from ioaware.errors import IoawareError

    try:
        _run(order, say)
    except IoawareError as error:
        say({"error": error.what, "remedy": error.remedy})


def _run(order: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    import torch
    import torch.distributed as dist
    from torch.cuda import nccl

    from ioaware.bench.gpu_setup import here
    from ioaware.measurement.gpu_lock import gpu_lease
    from ioaware.measurement.nvml import load_nvml, open_uuid

    rank, ranks = order["rank"], order["ranks"]
    torch.cuda.set_device(rank)
    gpu = open_uuid(load_nvml(), str(torch.cuda.get_device_properties(rank).uuid))
    with gpu_lease(gpu.limits.uuid, timeout_s=LOCK_S):
        dist.init_process_group(
            "nccl",
            init_method=f"file://{order['folder']}/rendezvous",
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=order["limit_s"]),
        )
        clock = RankClock(rank, ranks, dist.new_group(backend="gloo"), gpu)
        say({"environment": here(gpu) | {"nccl": ".".join(map(str, nccl.version())), "gpus": ranks}})
        measure = measurer(clock, order)
        for point in order["points"]:
            say(measure(point))
        dist.destroy_process_group()


def measurer(clock: RankClock, order: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """Return what measures one point of the order's subject."""
    if order["subject"] == "nvlink":
        from ioaware.bench.multi_gpu.rank_links import measure_links, protocol_groups

        groups = protocol_groups()
        return lambda size: measure_links(clock, size, groups, rounds=order["rounds"], idle_s=order["idle_s"])
    from ioaware.bench.multi_gpu.rank_attention import Plan, measure_point

    plan = Plan(order["names"], order["rounds"], order["count"], order["idle_s"])
    return lambda point: measure_point(clock, ExchangePoint.of(point), plan)


def _plain(value: object) -> object:
    """Return a dataclass as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{value!r} is not JSON")


if __name__ == "__main__":
    main()
