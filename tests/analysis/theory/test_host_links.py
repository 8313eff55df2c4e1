from __future__ import annotations

from dataclasses import replace

import pytest

from ioaware.analysis.theory.claims.io.gpu_exchange import messages
from ioaware.analysis.theory.counts.gpu_transfers import METHODS, PASSES, Method, Pass, Problem
from ioaware.analysis.theory.host_links import Hosts, host_plan, most_by_link, remote_bytes

HOSTS = Hosts(4, 100.0, 10.0)
PROBLEM = Problem(1, 16, 16, 64, 64, 4, 16, (4, 4))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("grid", [(4, 4), (8, 2), (2, 8), (16, 1), (1, 16)])
@pytest.mark.parametrize("ranks", [4, 16])
@pytest.mark.parametrize("direction", PASSES)
def test_bytes_between_hosts_are_those_of_the_messages(
    method: Method, grid: tuple[int, int], ranks: int, direction: Pass
) -> None:
    """Walk over every message to GPU 0."""
    if grid[0] * grid[1] != ranks:
        grid = (ranks, 1)
    problem = replace(PROBLEM, ranks=ranks, grid=grid)
    within = between = 0
    for sender, receiver, elements, wide in messages(method, direction, problem):
        if receiver == 0:
            size = elements * (4 if wide else 2)
            within, between = (within, between + size) if sender >= HOSTS.gpus else (within + size, between)
    assert remote_bytes(method, direction, problem, 2, HOSTS.gpus) == between
    if direction == "backward":
        return
    found = host_plan(method, problem, 2, HOSTS)
    assert (found.within_host, found.between_hosts) == (within, between)
    assert found.link_s == max(within / 100, between / 10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("grid", [(3, 3), (5, 2), (2, 5), (1, 9)])
def test_the_most_over_each_link_is_that_of_the_messages(method: Method, direction: Pass, grid: tuple[int, int]) -> None:
    """Walk over every message; the last host has fewer GPUs."""
    ranks = grid[0] * grid[1]
    problem = replace(PROBLEM, heads=2 * ranks, kv_heads=ranks, seq_len=4 * ranks, kv_len=4 * ranks, ranks=ranks, grid=grid)
    links = {rank: [0, 0] for rank in range(ranks)}
    for sender, receiver, elements, wide in messages(method, direction, problem):
        other = sender // HOSTS.gpus != receiver // HOSTS.gpus
        links[receiver][other] += elements * (4 if wide else 2)
    most = tuple(max(one[other] for one in links.values()) for other in (False, True))
    assert most_by_link(method, direction, problem, 2, HOSTS.gpus) == most


def test_a_ring_needs_less_memory_the_more_gpus_and_a_gather_holds_all_keys() -> None:
    ring, gather = (
        [host_plan(method, replace(PROBLEM, ranks=ranks), 2, HOSTS).extra_bytes for ranks in (2, 4, 8, 16)]
        for method in ("ring", "all_gather")
    )
    assert [2 * after for after in ring[1:]] == ring[:-1]
    assert min(gather) > 2 * 16 * 64 * 4 * 2
