"""Count what each of P GPUs receives and sends in attention.

The counts are elements, per method and pass, over a sequence in P parts.

Chunk c of 2P is rows floor(c N / 2P) to floor((c + 1) N / 2P), and GPU r holds chunks r and 2P - 1 - r of Q, K and V. A grid
has R rows and C columns, R C = P; GPU i C + j is in row i and column j. `MEAN` has closed forms of the mean over GPUs, which
each GPU meets where 2P divides N and N_k; `moved` is exact for one GPU at any sizes. Masks change neither. Sources: Liu
et al. 2023, arXiv 2310.01889 (ring); Jacobs et al. 2023, arXiv 2309.14509 (all_to_all).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from ioaware.analysis.formulas.functions import largest, positive_symbols
from ioaware.analysis.theory.counting import B, Elements, H, N, N_k, d

Method = Literal["ring", "all_gather", "all_to_all", "square"]
METHODS: tuple[Method, ...] = get_args(Method)
Pass = Literal["forward", "backward"]
PASSES: tuple[Pass, ...] = get_args(Pass)

P, R, C, H_kv = positive_symbols("P R C H_kv")

_KEYS = 2 * B * H_kv * N_k * d * (P - 1) / P
_HEADS = 2 * B * d * (H * N + largest(H_kv, P) * N_k) * (P - 1) / P**2
_ROW, _COLUMN = B * H * N * (C - 1) / P, 2 * B * H_kv * N_k * d * (R - 1) / P
_KEYS_TWICE = Elements(inputs=_KEYS, fp32=_KEYS)

MEAN: Mapping[tuple[Method, Pass], Elements] = {
    ("ring", "forward"): Elements(inputs=_KEYS),
    ("ring", "backward"): _KEYS_TWICE,
    ("all_gather", "forward"): Elements(inputs=_KEYS),
    ("all_gather", "backward"): _KEYS_TWICE,
    ("all_to_all", "forward"): Elements(inputs=_HEADS),
    ("all_to_all", "backward"): Elements(inputs=_HEADS),
    ("square", "forward"): Elements(inputs=2 * d * _ROW + _COLUMN, fp32=_ROW),
    ("square", "backward"): Elements(inputs=3 * d * _ROW + _COLUMN, fp32=(d + 1) * _ROW + _COLUMN),
}
"""Elements that a GPU receives, and sends, on average over the GPUs.

ring, all_gather: K and V of the others; backward also dK and dV, in float32. all_to_all: Q, K and V of its heads, and O of its
rows; backward dO of its heads and dQ, dK, dV of its rows. square: Q of its row, K and V of its column, partial O and
log-sum-exp (float32) of its queries; backward Q, O, dO and log-sum-exp, K and V, and partial gradients in float32.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """Attention over `ranks` GPUs; grid is (rows, columns) of the method square."""

    batch: int
    heads: int
    kv_heads: int
    seq_len: int
    kv_len: int
    head_dim: int
    ranks: int
    grid: tuple[int, int]

    def rows(self, length: int, gpus: Iterable[int]) -> int:
        """Return how many of `length` rows these GPUs hold."""
        return sum(shard_rows(length, self.ranks, gpu) for gpu in gpus)


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements that one GPU receives and sends: in the inputs' dtype, and in float32."""

    received: int
    sent: int
    received_fp32: int = 0
    sent_fp32: int = 0

    def received_bytes(self, element_bytes: int) -> int:
        return element_bytes * self.received + 4 * self.received_fp32

    def sent_bytes(self, element_bytes: int) -> int:
        return element_bytes * self.sent + 4 * self.sent_fp32


@lru_cache(maxsize=2**16)
def shard_rows(length: int, ranks: int, rank: int) -> int:
    """Return the rows of chunks rank and 2 ranks - 1 - rank."""
    edges = [chunk * length // (2 * ranks) for chunk in (rank, rank + 1, 2 * ranks - 1 - rank, 2 * ranks - rank)]
    return edges[1] - edges[0] + edges[3] - edges[2]


def moved(method: Method, direction: Pass, problem: Problem, rank: int) -> Moved:
    """Return the elements that GPU `rank` receives and sends, exactly."""
    if method == "ring":
        return _ring(direction, problem, rank)
    if method == "all_to_all":
        return _all_to_all(direction, problem, rank)
    return _grid(direction, problem, rank, (problem.ranks, 1) if method == "all_gather" else problem.grid)


def _ring(direction: Pass, problem: Problem, rank: int) -> Moved:
    """Count all blocks but one.

    Of K and V, one's own block does not arrive, and the right neighbour's does not leave. For dK and dV it is reversed.
    """
    ranks, length = problem.ranks, problem.kv_len
    head = 2 * problem.batch * problem.kv_heads * problem.head_dim
    own, right, left = (head * (length - shard_rows(length, ranks, gpu % ranks)) for gpu in (rank, rank + 1, rank - 1))
    return Moved(own, right, left, own) if direction == "backward" else Moved(own, right)


def _all_to_all(direction: Pass, problem: Problem, rank: int) -> Moved:
    ranks, head = problem.ranks, problem.batch * problem.head_dim
    queries = head * problem.heads // ranks
    keys = 2 * head * max(problem.kv_heads // ranks, 1)
    n, m = (shard_rows(length, ranks, rank) for length in (problem.seq_len, problem.kv_len))
    others, others_keys = problem.seq_len - n, problem.kv_len - m
    both = queries * (others + n * (ranks - 1))  # Q and O, or dO and dQ: one way as parts, the other way as heads
    if direction == "forward":
        return Moved(both + keys * others_keys, both + keys * m * (ranks - 1))
    return Moved(both + keys * m * (ranks - 1), both + keys * others_keys)


def _grid(direction: Pass, problem: Problem, rank: int, grid: tuple[int, int]) -> Moved:
    rows, columns = grid
    in_row = [gpu for gpu in range(rank // columns * columns, rank // columns * columns + columns) if gpu != rank]
    in_column = [gpu for gpu in range(rank % columns, problem.ranks, columns) if gpu != rank]
    heads, keys = problem.batch * problem.heads, 2 * problem.batch * problem.kv_heads * problem.head_dim
    d = problem.head_dim
    # What others hold, and what is held here, times the others: the first is gathered, the second goes to them or returns.
    n_others, n_own = heads * problem.rows(problem.seq_len, in_row), heads * shard_rows(problem.seq_len, problem.ranks, rank)
    m_others, m_own = keys * problem.rows(problem.kv_len, in_column), keys * shard_rows(problem.kv_len, problem.ranks, rank)
    n_own, m_own = n_own * (columns - 1), m_own * (rows - 1)
    if direction == "forward":
        both = d * (n_others + n_own)  # Q of the row, and partial O
        return Moved(both + m_others, both + m_own, n_own, n_others)
    return Moved(
        3 * d * n_others + m_others, 3 * d * n_own + m_own, n_others + d * n_own + m_own, n_own + d * n_others + m_others
    )
