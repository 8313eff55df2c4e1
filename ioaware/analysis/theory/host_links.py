"""Model attention over GPUs of several hosts: bytes, time and memory.

GPUs of one host have a fast link, and each GPU has one link to other hosts. GPU 0 is the first of its host. Sizes are such that
every GPU holds as many rows: 2P divides N. The bytes are those of `gpu_transfers`, split by where they come from; the time is
that of the slowest of both links, the tensor cores and HBM, as overlap would have it at best.
"""

from __future__ import annotations

from dataclasses import dataclass

from ioaware.analysis.theory.counts.gpu_transfers import Method, Pass, Problem, moved

FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts of equal GPUs, and bytes a second that a GPU receives over a link."""

    gpus: int
    link_bytes_per_s: float
    network_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One method in a forward pass: what GPU 0 receives, and the links' time.

    `extra_bytes`: what GPU 0 holds beyond its parts of Q, K, V and O.
    """

    method: Method
    grid: tuple[int, int]
    within_host: int
    between_hosts: int
    link_s: float
    extra_bytes: int


def host_plan(method: Method, problem: Problem, element: int, hosts: Hosts) -> HostPlan:
    """Return the plan of a method that can run; a square has the problem's grid."""
    received = moved(method, "forward", problem, 0).received_bytes(element)
    remote = remote_bytes(method, "forward", problem, element, hosts.gpus)
    seconds = max((received - remote) / hosts.link_bytes_per_s, remote / hosts.network_bytes_per_s)
    return HostPlan(method, problem.grid, received - remote, remote, seconds, _extra(method, problem, element))


def remote_bytes(method: Method, direction: Pass, problem: Problem, element: int, gpus: int, rank: int = 0) -> int:
    """Return what GPU `rank` receives from other hosts, of `gpus` each.

    The last host may have fewer.
    """
    ranks = problem.ranks
    if ranks <= gpus:
        return 0
    received = moved(method, direction, problem, rank).received_bytes(element)
    host = range(rank // gpus * gpus, min(rank // gpus * gpus + gpus, ranks))
    if method == "ring":  # the first GPU of a host receives from the last of another
        return received if rank == host.start else 0
    if method != "square":
        return received * (ranks - len(host)) // (ranks - 1)
    rows, columns = problem.grid
    width = element + (FP32_BYTES if direction == "backward" else 0)  # K and V, and partial dK and dV
    keys = 2 * problem.batch * problem.kv_heads * problem.head_dim * width * problem.kv_len // ranks  # of one GPU
    of_column = sum(gpu % columns == rank % columns for gpu in host)
    of_row = sum(gpu // columns == rank // columns for gpu in host)
    remote = keys * (rows - of_column)
    if columns > 1:
        remote += (received - keys * (rows - 1)) * (columns - of_row) // (columns - 1)
    return remote


def most_by_link(method: Method, direction: Pass, problem: Problem, element: int, gpus: int) -> tuple[int, int]:
    """Return the most that a GPU receives within its host, and from others.

    They may be two GPUs: of a ring's host one receives over the network alone.
    """
    within = remote = 0
    for rank in range(problem.ranks):
        received = moved(method, direction, problem, rank).received_bytes(element)
        from_others = remote_bytes(method, direction, problem, element, gpus, rank)
        within, remote = max(within, received - from_others), max(remote, from_others)
    return within, remote


def _extra(method: Method, problem: Problem, element: int) -> int:
    """Return the bytes of what others sent, and of partial results in float32."""
    ranks, width = problem.ranks, problem.batch * problem.head_dim
    q = width * problem.heads * problem.seq_len // ranks  # elements of one GPU's part
    kv = 2 * width * problem.kv_heads * problem.kv_len // ranks
    partial = FP32_BYTES * q * (problem.head_dim + 1) // problem.head_dim
    if method == "ring":
        return 2 * kv * element + partial
    if method == "all_gather":
        return ranks * kv * element + partial
    if method == "all_to_all":
        keys = 2 * width * max(problem.kv_heads, ranks) * problem.kv_len // ranks
        return (2 * q + keys) * element
    rows, columns = problem.grid
    return rows * kv * element + columns * (q * element + partial)
