"""Split a sequence over ranks in zigzag, and find runs of rows.

The rows of a run see a prefix of a block of keys.

A sequence of N rows is cut into 2P chunks, chunk c from floor(c N / 2P) to floor((c + 1) N / 2P). Rank r holds chunks r and
2P - 1 - r, one after the other. Why: under a causal mask an early chunk sees few keys and its mirror image many, so that the
ranks have equal work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from ioaware.errors import UsageError

Segment = tuple[int, int]
"""Rows [start, end) of the whole sequence."""


def shard_segments(length: int, ranks: int, rank: int) -> list[Segment]:
    """Return the rows of the sequence that a rank holds.

    They are ascending and without empty segments.
    """
    chunks = [(chunk * length // (2 * ranks), (chunk + 1) * length // (2 * ranks)) for chunk in (rank, 2 * ranks - 1 - rank)]
    return list(_joined(chunks))


def shard_length(length: int, ranks: int, rank: int) -> int:
    """Return the number of rows that a rank holds."""
    return sum(end - start for start, end in shard_segments(length, ranks, rank))


def shard_sequence(x: torch.Tensor, rank: int, ranks: int, dim: int = 2) -> torch.Tensor:
    """Return a rank's part of a whole tensor along `dim`, contiguous.

    Raises UsageError for a rank outside 0 to ranks - 1.
    """
    if not 0 <= rank < ranks:
        raise UsageError(f"there is no rank {rank} of {ranks}", "Ranks count from 0.")
    segments = shard_segments(x.shape[dim], ranks, rank)
    return torch.cat([x.narrow(dim, start, end - start) for start, end in segments] or [x.narrow(dim, 0, 0)], dim)


def join_shards(shards: Sequence[torch.Tensor], dim: int = 2) -> torch.Tensor:
    """Return the whole tensor from the parts of all ranks in order.

    The parts are as `shard_sequence` makes them.

    Raises UsageError for parts of other lengths.
    """
    length, ranks = sum(shard.shape[dim] for shard in shards), len(shards)
    for rank, shard in enumerate(shards):
        if shard.shape[dim] != shard_length(length, ranks, rank):
            what = f"rank {rank} of {ranks} holds {shard_length(length, ranks, rank)} of {length} rows, not {shard.shape[dim]}"
            raise UsageError(what, "Give the parts of all ranks in order, as shard_sequence makes them.")
    return sort_shards(shards, [shard_segments(length, ranks, rank) for rank in range(ranks)], dim)[0]


def sort_shards(
    shards: Sequence[torch.Tensor], segments: Sequence[Sequence[Segment]], dim: int = 2
) -> tuple[torch.Tensor, list[Segment]]:
    """Return shards joined by ascending position, and the positions of the rows."""
    pieces: list[tuple[Segment, torch.Tensor]] = []
    for shard, held in zip(shards, segments, strict=True):
        row = 0
        for start, end in held:
            pieces.append(((start, end), shard.narrow(dim, row, end - start)))
            row += end - start
    pieces.sort(key=lambda piece: piece[0])
    joined = torch.cat([piece for _, piece in pieces] or [shards[0].narrow(dim, 0, 0)], dim)
    return joined, list(_joined(segment for segment, _ in pieces))


def take_segments(x: torch.Tensor, held: Sequence[Segment], wanted: Sequence[Segment], dim: int = 2) -> torch.Tensor:
    """Return the rows at positions `wanted` of a tensor.

    The tensor's rows are at positions `held`. Both are ascending.
    """
    pieces: list[torch.Tensor] = []
    row = 0
    for start, end in held:
        for first, last in wanted:
            low, high = max(first, start), min(last, end)
            if low < high:
                pieces.append(x.narrow(dim, row + low - start, high - low))
        row += end - start
    return torch.cat(pieces or [x.narrow(dim, 0, 0)], dim)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive rows [first, first + rows) that see a prefix of the keys.

    causal: the last row sees `keys` keys, each row before it one fewer; otherwise each row sees `keys`.
    """

    first: int
    rows: int
    keys: int
    causal: bool


def visible_runs(queries: Sequence[Segment], keys: Sequence[Segment], shift: int | None) -> list[Run]:
    """Return the fewest runs that cover all visible pairs.

    A pair is a local row and a local key.

    Position p sees the keys at positions up to p + shift, all keys where shift is None. Rows that see no key are in no run.
    `keys` ascend, so that what a row sees is a prefix of the local keys.
    """
    if shift is None:
        rows, length = (sum(end - start for start, end in side) for side in (queries, keys))
        return [Run(0, rows, length, causal=False)] if rows and length else []
    runs: list[Run] = []
    for run in _pieces(queries, keys, shift):
        last = runs[-1] if runs else None
        if last and last.first + last.rows == run.first and last.causal == run.causal and _continues(last, run):
            runs[-1] = Run(last.first, last.rows + run.rows, run.keys, run.causal)
        elif run.keys:
            runs.append(run)
    return runs


def _continues(last: Run, run: Run) -> bool:
    """Return whether the first row of `run` continues the key counts of `last`.

    It sees as many keys as the next row of `last` would.
    """
    return run.keys - run.rows + 1 == last.keys + 1 if run.causal else run.keys == last.keys


def _pieces(queries: Sequence[Segment], keys: Sequence[Segment], shift: int) -> Iterator[Run]:
    """Yield rows between positions where a key segment begins or ends.

    Each row sees as many keys as the last, or one more.
    """
    row = 0
    for start, end in queries:
        edges = {key - shift for segment in keys for key in segment}
        cuts = sorted({start, end, *(edge for edge in edges if start < edge < end)})
        for low, high in pairwise(cuts):
            grows = any(first - shift <= low < last - shift for first, last in keys)
            seen = sum(min(max(high + shift - first, 0), last - first) for first, last in keys)  # by the row at high - 1
            yield Run(row, high - low, seen, causal=grows)
            row += high - low


def _joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield ascending segments, neighbours as one and none empty."""
    held: Segment | None = None
    for start, end in segments:
        if start == end:
            continue
        if held and held[1] == start:
            held = (held[0], end)
            continue
        if held:
            yield held
        held = (start, end)
    if held:
        yield held
