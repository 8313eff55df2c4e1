"""Move plain tensors between ranks, by copies and by NCCL's protocols.

A copy is a peer-to-peer copy by the GPU's copy engines. NCCL's protocols: Simple moves data as it is, LL128 puts 8 bytes of
flags into every 128, LL 4 into every 8 (NCCL's documentation of NCCL_PROTO).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist

from ioaware.bench.interleaving import order
from ioaware.bench.multi_gpu.link_record import Ends
from ioaware.bench.multi_gpu.rank_clock import RankClock

PROTOCOLS = ("Simple", "LL128", "LL")
COPY_ONE_WAY, COPY, SEND, GATHER = "copy one way", "copy", "send", "all_gather"
NAMES = (COPY_ONE_WAY, COPY, SEND, GATHER, *(f"{GATHER} {protocol}" for protocol in PROTOCOLS))
COUNTED_BYTES = 2**28
MAX_CALLS = 1000
Run = Callable[[], object]


def protocol_groups() -> dict[str, dist.ProcessGroup]:
    """Return a group of NCCL for each protocol.

    NCCL reads NCCL_PROTO when a group's communicator begins.
    """
    groups: dict[str, dist.ProcessGroup] = {}
    before = os.environ.get("NCCL_PROTO")
    for protocol in PROTOCOLS:
        os.environ["NCCL_PROTO"] = protocol
        group = cast("dist.ProcessGroup", dist.new_group(backend="nccl"))
        dist.all_reduce(torch.zeros(1, device="cuda"), group=group)
        torch.cuda.synchronize()
        groups[protocol] = group
    if before is None:
        del os.environ["NCCL_PROTO"]
    else:
        os.environ["NCCL_PROTO"] = before
    return groups


def measure_links(
    clock: RankClock, size_bytes: int, groups: Mapping[str, dist.ProcessGroup], *, rounds: int, idle_s: float
) -> dict[str, Any]:
    """Return what this rank found for one size: entries by name, idle bytes."""
    runs = _works(clock, size_bytes, groups)
    calls = max(1, min(MAX_CALLS, COUNTED_BYTES // size_bytes))
    entries: dict[str, dict[str, Any]] = {}
    for name, (run, right) in runs.items():
        run()
        clock.barrier()
        entries[name] = {"status": "ok" if clock.all_agree(right()) else "wrong"}
    idle = clock.idle(idle_s)
    for name, (run, _) in runs.items():
        entries[name] |= {"counted_calls": calls, "counted": clock.count(run, calls)}
    for number in range(rounds):
        for name in order(list(runs), number):
            entries[name].setdefault("times_ns", []).append(clock.time_ns(runs[name][0], calls))
    return {"entries": entries, "idle": idle, "telemetry": clock.gpu.snapshot().to_dict()}


def expected_link_ends(name: str, size_bytes: int, ranks: int) -> tuple[Ends, ...]:
    """Return what each GPU exchanges in one call."""
    if name == COPY_ONE_WAY:
        return tuple(Ends(size_bytes if gpu == 1 else 0, size_bytes if gpu == 0 else 0) for gpu in range(ranks))
    others = ranks - 1 if name.startswith(GATHER) else 1
    return tuple(Ends(size_bytes * others, size_bytes * others) for _ in range(ranks))


def _works(
    clock: RankClock, size_bytes: int, groups: Mapping[str, dist.ProcessGroup]
) -> dict[str, tuple[Run, Callable[[], bool]]]:
    """Return each entry's work, and whether what it wrote is right."""
    right, left = (clock.rank + 1) % clock.ranks, (clock.rank - 1) % clock.ranks

    def numbers(rank: int) -> torch.Tensor:
        return torch.full((size_bytes // 4,), rank + 1, dtype=torch.int32, device=clock.device)

    mine = numbers(clock.rank)
    there = torch.zeros(size_bytes // 4, dtype=torch.int32, device=f"cuda:{right}")
    arriving = torch.zeros_like(mine)
    gathered = torch.zeros(clock.ranks * mine.numel(), dtype=torch.int32, device=clock.device)

    def copied() -> bool:
        return bool((there == clock.rank + 1).all().item())

    def send() -> None:
        ops = [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, arriving, left)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    def gather(group: dist.ProcessGroup | None) -> Run:
        into: Any = dist.all_gather_into_tensor  # pyright: ignore[reportDeprecated] - torch 2.11 has no other
        return lambda: into(gathered, mine, group=group)

    def complete() -> bool:
        wanted = torch.cat([numbers(rank) for rank in range(clock.ranks)])
        whole = torch.equal(gathered, wanted)
        gathered.zero_()
        return whole

    one_way: Run = (lambda: there.copy_(mine)) if clock.rank == 0 else (lambda: None)
    named: Sequence[tuple[str, dist.ProcessGroup | None]] = [(GATHER, None)]
    named = [*named, *((f"{GATHER} {protocol}", group) for protocol, group in groups.items())]
    return {
        COPY_ONE_WAY: (one_way, lambda: clock.rank != 0 or copied()),
        COPY: (lambda: there.copy_(mine), copied),
        SEND: (send, lambda: torch.equal(arriving, numbers(left))),
        **{name: (gather(group), complete) for name, group in named},
    }
