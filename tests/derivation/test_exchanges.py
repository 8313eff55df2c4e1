"""Transfers from host code, against closed forms and with mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ioaware.analysis.theory.counts.gpu_transfers import PASSES, Problem, moved
from ioaware.derivation.exchanges import RankExchange, derive_exchanges
from ioaware.errors import UsageError
from ioaware.kernels.attention.distributed.context_parallel import METHODS, squarest_grid
from ioaware.targets.target import load_target

TARGETS = "ioaware.kernels.attention.distributed.rank_targets"
SIZES = {"batch": 2, "heads": 24, "kv_heads": 12, "seq_len": 101, "kv_len": 77, "head_dim": 16, "causal": True}
PROGRAM = """
import torch
import torch.distributed as dist

def pairs(missing: bool = False, other: int = 8, device: str = "cuda") -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = torch.zeros(other if rank else 8, device=device)
    into = torch.empty(8, device=device)
    ops = [dist.P2POp(dist.isend, mine, (rank + 1) % ranks), dist.P2POp(dist.irecv, into, (rank - 1) % ranks)]
    if missing and rank == 1:
        ops.pop()
    for work in dist.batch_isend_irecv(ops):
        work.wait()

def reduced(device: str = "cuda") -> None:
    dist.all_reduce(torch.zeros(8, device=device))

def broken(device: str = "cuda") -> None:
    if dist.get_rank() == 1:
        raise KeyError("no such thing")
    dist.all_gather([None] * dist.get_world_size(), torch.tensor([1]))
"""


def derived(name: str, ranks: int, **params: Any) -> list[RankExchange]:
    target = load_target(name)
    return derive_exchanges(target, target.resolve(params), ranks)


def equal(method: str, ranks: int, direction: str, sizes: dict[str, Any]) -> None:
    found = derived(f"{TARGETS}:{direction}", ranks, **sizes, method=method)
    known = {name: value for name, value in sizes.items() if name != "causal"}
    problem = Problem(**known, ranks=ranks, grid=squarest_grid(ranks))
    passes = PASSES if direction == "backward" else ("forward",)
    for one in found:
        counts = [moved(method, each, problem, one.rank) for each in passes]  # type: ignore[arg-type]
        assert one.received_bytes == sum(count.received_bytes(2) for count in counts)
        assert one.sent_bytes == sum(count.sent_bytes(2) for count in counts)
        assert one.gathered_bytes == 120 * (ranks - 1)


@pytest.mark.parametrize("method", METHODS)
def test_what_the_host_code_moves_is_the_closed_form(method: str) -> None:
    equal(method, 4, "backward", SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 6, 8])
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("method", METHODS)
def test_at_other_numbers_of_gpus_and_sizes_too(method: str, direction: str, ranks: int) -> None:
    kv_heads = 24 if method == "all_to_all" else 6
    equal(method, ranks, direction, {**SIZES, "kv_heads": kv_heads, "seq_len": 1001, "kv_len": 3})


def test_sizes_beyond_any_memory_are_derived() -> None:
    found = derived(f"{TARGETS}:forward", 2, seq_len=2**26, method="ring")
    assert found[0].received_bytes == 2 * 8 * 2**25 * 128 * 2


def test_a_call_that_the_host_code_refuses_is_its_error() -> None:
    with pytest.raises(UsageError, match="3 heads and 3 key heads cannot be divided among 2 ranks"):
        derived(f"{TARGETS}:forward", 2, heads=3, kv_heads=3, method="all_to_all")


@pytest.mark.parametrize(
    ("params", "message"),
    [({"method": "star"}, "there is no method 'star'"), ({"method": "square", "rows": 3}, r"grid=\(3, 1\) is not")],
)
def test_every_rank_has_the_error_and_the_first_is_shown(params: dict[str, Any], message: str) -> None:
    for _ in range(3):
        with pytest.raises(UsageError, match=message):
            derived(f"{TARGETS}:forward", 4, **params)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"name": "pairs", "missing": True}, r"rank 0 sends 1 messages of 32 bytes to rank 1, which receives 0 of 0"),
        ({"name": "pairs", "other": 4}, r"rank 1 sends 1 messages of 16 bytes to rank 2, which receives 1 of 32"),
        ({"name": "reduced"}, r"torch\.distributed\.all_reduce"),
        ({"name": "broken"}, r"rank 1: KeyError: 'no such thing'"),
    ],
)
def test_a_program_with_a_mistake_is_one_error(call: dict[str, Any], message: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    params = {name: value for name, value in call.items() if name != "name"}
    with pytest.raises(UsageError, match=message):
        derived(f"{program}:{call['name']}", 3, **params)


def test_torch_distributed_is_as_it_was_afterwards() -> None:
    import torch
    import torch.distributed as dist

    before = (dist.get_rank, dist.P2POp, dist.group, torch.tensor)
    derived(f"{TARGETS}:forward", 2, **SIZES)
    assert (dist.get_rank, dist.P2POp, dist.group, torch.tensor) == before
