"""Count what one GPU's attention kernels move when a sequence is split over GPUs.

A GPU's queries meet one block of keys after another. Under a causal mask the rows that see any key of a block fall into runs.
Each run is a call of the kernel with a plain or a causal mask. A row that sees no key is in no call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.counts import flash2, flash2_backward
from ioaware.analysis.theory.counts.gpu_transfers import Method, Pass, Problem

FP32_BYTES = 4
Segment = tuple[int, int]
"""Positions [start, end) of a sequence."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the kernel; causal: only the last row sees the last key."""

    rows: int
    keys: int
    causal: bool


@dataclass(frozen=True, slots=True)
class KernelBytes:
    """Bytes that kernels request, and the least that reach HBM."""

    requested: int
    hbm: int


def kernel_bytes(
    method: Method, direction: Pass, problem: Problem, element: int, *, causal: bool, block_m: int, block_n: int
) -> KernelBytes:
    """Return what GPU 0's attention kernels move in one pass.

    Their order is FlashAttention-2's. Backward, dQ is added by atomics, which are not requested bytes. Kernels that merge
    partial results are not counted.
    """
    heads, kv_heads, queries, blocks = _parts(method, problem)
    shift = problem.kv_len - problem.seq_len if causal else None
    requested = hbm = 0
    for keys in blocks:
        for call in calls(queries, keys, shift):
            requested += heads * _requested(direction, call, problem.head_dim, element, block_m, block_n)
            hbm += _least(direction, call, problem.head_dim, element, heads, kv_heads)
    return KernelBytes(problem.batch * requested, problem.batch * hbm)


def calls(queries: Sequence[Segment], keys: Sequence[Segment], shift: int | None) -> list[Call]:
    """Return the calls for these rows and keys, both ascending.

    Position p sees keys up to p + shift; all keys where shift is None.
    """
    if shift is None:
        rows, length = (sum(end - start for start, end in side) for side in (queries, keys))
        return [Call(rows, length, causal=False)] if rows and length else []
    found: list[Call] = []
    for start, end in queries:
        edges = {key - shift for segment in keys for key in segment}
        cuts = [start, *sorted(edge for edge in edges if start < edge < end), end]
        for low, high in pairwise(cuts):
            seen = sum(min(max(high + shift - first, 0), last - first) for first, last in keys)
            grows = any(first <= low + shift < last for first, last in keys)
            _append(found, Call(high - low, seen, grows))
    return [call for call in found if call.keys]


def _append(found: list[Call], call: Call) -> None:
    """Append a call, or lengthen the last one where its mask goes on."""
    last = found[-1] if found else None
    goes_on = last is not None and last.causal == call.causal and last.keys == call.keys - call.causal * call.rows
    if last is not None and goes_on:
        found[-1] = Call(last.rows + call.rows, call.keys, call.causal)
    else:
        found.append(call)


def _parts(method: Method, problem: Problem) -> tuple[int, int, list[Segment], list[list[Segment]]]:
    """Return heads, key heads, GPU 0's queries, and its blocks of keys."""
    ranks, heads, kv_heads = problem.ranks, problem.heads, problem.kv_heads
    if method == "all_to_all":
        return heads // ranks, max(kv_heads // ranks, 1), [(0, problem.seq_len)], [[(0, problem.kv_len)]]
    columns = problem.grid[1] if method == "square" else 1
    queries = sorted(segment for gpu in range(columns) for segment in _chunks(problem.seq_len, ranks, gpu))
    return heads, kv_heads, _joined(queries), [_chunks(problem.kv_len, ranks, gpu) for gpu in range(0, ranks, columns)]


def _chunks(length: int, ranks: int, gpu: int) -> list[Segment]:
    """Return the positions of chunks gpu and 2 ranks - 1 - gpu."""
    chunks = (gpu, 2 * ranks - 1 - gpu)
    return _joined([(chunk * length // (2 * ranks), (chunk + 1) * length // (2 * ranks)) for chunk in chunks])


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Return ascending segments without empty ones, neighbours as one."""
    found: list[Segment] = []
    for start, end in segments:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        elif start < end:
            found.append((start, end))
    return found


@lru_cache(maxsize=2**12)
def _requested(direction: Pass, call: Call, head_dim: int, element: int, block_m: int, block_n: int) -> int:
    """Return the bytes that one query head requests."""
    counts = flash2.counts(call.causal) if direction == "forward" else flash2_backward.atomic(call.causal)
    values = {"N": call.rows, "N_k": call.keys, "d": head_dim, "e": element, "B_r": block_m, "B_c": block_n}
    return sum(evaluate(one.bytes, values) for one in (counts.reads, counts.writes))


def _least(direction: Pass, call: Call, head_dim: int, element: int, heads: int, kv_heads: int) -> int:
    """Return the bytes of every tensor once.

    They are Q, K, V, O and the log-sum-exp; backward dO and the gradients too.
    """
    passes = 2 if direction == "backward" else 1
    rows, keys = heads * call.rows, kv_heads * call.keys
    return passes * 2 * head_dim * element * (rows + keys) + FP32_BYTES * rows
