"""Compare what the methods of attention over several GPUs receive.

Name the method that receives the least, and say where methods cross, as formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ioaware.analysis.formulas.functions import square_root
from ioaware.analysis.theory.counting import N, N_k, d
from ioaware.analysis.theory.counts.gpu_transfers import METHODS, PASSES, Method, P, Pass, Problem, moved
from ioaware.analysis.theory.lower_bounds import Bound

CROSSOVERS = {
    ("all_to_all", "ring"): "P divides H and H_kv, P > 1 + H/H_kv; or H_kv divides P and P divides H, P > H / (H_kv - 1)",
    ("square", "ring"): "sqrt(P) > H/H_kv, on a square grid",
    ("all_to_all", "square"): "P divides H and H_kv, P >= 4, on a square grid",
}
"""When the first method receives fewer elements than the second.

This is for a forward pass with N_k = N, the log-sum-exp left out.
"""

LEAST_RECEIVED = Bound(
    "least received",
    d * (2 * square_root(2 * N * N_k / P) - (N + 2 * N_k) / P),
    condition="one head, no mask, parts of equal length; one GPU computes a score and its product with V whole, and the GPUs "
    "have equally many scores",
    source="a GPU with a rows of Q and b rows of K has at most a b scores, so a b >= N N_k / P and it needs a + 2 b >= "
    "2 sqrt(2 N N_k / P) rows of Q, K and V, of which it holds (N + 2 N_k) / P; as Irony, Toledo and Tiskin 2004 for matrix "
    "products",
    constant=True,
)
"""Elements of Q, K and V that a GPU must receive, whatever its memory.

What it receives of O comes on top.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """One method for a problem: bytes that the busiest GPU receives.

    The bytes are given forward and backward. `why_not` is set where the method cannot run.
    """

    method: Method
    grid: tuple[int, int] | None
    forward_bytes: int
    backward_bytes: int
    why_not: str = ""

    @property
    def total_bytes(self) -> int:
        return self.forward_bytes + self.backward_bytes


def choices(problem: Problem, element_bytes: int, *, backward: bool = True) -> list[Choice]:
    """Return all methods, the fewest received bytes first.

    Those that cannot run come last. The square method has its best grid.

    Without `backward` only forward passes count. Of equals the first of `METHODS` comes first: a ring needs the least memory.
    """
    found = [_choice(method, problem, element_bytes) for method in METHODS if method != "square"]
    grids = [(rows, problem.ranks // rows) for rows in range(1, problem.ranks + 1) if problem.ranks % rows == 0]
    squares = [_choice("square", replace(problem, grid=grid), element_bytes) for grid in grids]

    def cost(choice: Choice) -> tuple[bool, int]:
        return bool(choice.why_not), choice.total_bytes if backward else choice.forward_bytes

    return sorted([*found, min(squares, key=cost)], key=cost)


def _choice(method: Method, problem: Problem, element_bytes: int) -> Choice:
    def busiest(direction: Pass) -> int:
        return max(moved(method, direction, problem, rank).received_bytes(element_bytes) for rank in _extremes(problem))

    heads, kv_heads, ranks = problem.heads, problem.kv_heads, problem.ranks
    why_not = ""
    if method == "all_to_all" and (heads % ranks or (kv_heads % ranks and ranks % kv_heads)):
        why_not = f"{heads} heads and {kv_heads} key heads cannot be divided among {ranks} GPUs"
        return Choice(method, None, 0, 0, why_not)
    forward, backward = (busiest(direction) for direction in PASSES)
    return Choice(method, problem.grid if method == "square" else None, forward, backward)


def _extremes(problem: Problem) -> range:
    """Return the GPUs to compare: all, or one where all receive the same."""
    even = problem.seq_len % (2 * problem.ranks) == 0 and problem.kv_len % (2 * problem.ranks) == 0
    return range(1 if even else problem.ranks)


def all_to_all_beats_ring(ranks: int, heads: int, kv_heads: int) -> bool:
    """Compare forward passes with N_k = N: H + max(H_kv, P) < P H_kv."""
    return heads + max(kv_heads, ranks) < ranks * kv_heads


def square_beats_ring(ranks: int, heads: int, kv_heads: int) -> bool:
    """Compare forward passes with N_k = N on a square grid: sqrt(P) > H / H_kv.

    The log-sum-exp is left out.
    """
    side = math.isqrt(ranks)
    return side * side == ranks and side * kv_heads > heads
