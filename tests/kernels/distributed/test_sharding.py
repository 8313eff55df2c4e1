from __future__ import annotations

import itertools
import random

import pytest
import torch

from ioaware.errors import UsageError
from ioaware.kernels.attention.distributed.sharding import (
    Run,
    Segment,
    join_shards,
    shard_length,
    shard_segments,
    shard_sequence,
    visible_runs,
)


def test_every_row_has_one_rank_and_lengths_differ_by_at_most_two() -> None:
    for length, ranks in itertools.product((0, 1, 5, 16, 23, 64), (1, 2, 3, 5, 8, 40)):
        held = [shard_segments(length, ranks, rank) for rank in range(ranks)]
        positions = sorted(p for segments in held for start, end in segments for p in range(start, end))
        assert positions == list(range(length))
        lengths = [shard_length(length, ranks, rank) for rank in range(ranks)]
        assert max(lengths) - min(lengths) <= 2
        assert all(start < end for segments in held for start, end in segments)


def test_parts_join_to_the_whole() -> None:
    for length, ranks in ((23, 4), (3, 5), (8, 1)):
        x = torch.arange(2 * length * 3).view(2, length, 3)
        parts = [shard_sequence(x, rank, ranks, dim=1) for rank in range(ranks)]
        assert torch.equal(join_shards(parts, dim=1), x)
    with pytest.raises(UsageError, match=r"rank 0 of 2 holds 3 of 6 rows, not 2"):
        join_shards([torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 4, 4)])
    with pytest.raises(UsageError, match="there is no rank 4 of 4"):
        shard_sequence(torch.zeros(1, 1, 2, 4), 4, 4)


def pairs_of(runs: list[Run]) -> set[tuple[int, int]]:
    """Return the (row, key) pairs of the runs, each of which must be in one run only."""
    found = [
        (run.first + row, key)
        for run in runs
        for row in range(run.rows)
        for key in range(run.keys - (run.rows - 1 - row if run.causal else 0))
    ]
    assert len(found) == len(set(found))
    return set(found)


def visible_pairs(queries: list[Segment], keys: list[Segment], shift: int | None) -> set[tuple[int, int]]:
    rows, columns = ([p for start, end in side for p in range(start, end)] for side in (queries, keys))
    return {
        (row, key)
        for (row, p), (key, position) in itertools.product(enumerate(rows), enumerate(columns))
        if shift is None or position <= p + shift
    }


def test_runs_hold_each_visible_pair_once() -> None:
    for n, n_k, ranks in itertools.product((1, 7, 24, 30), (1, 13, 24), (1, 2, 3, 5)):
        for rank, source in itertools.product(range(ranks), repeat=2):
            queries, keys = shard_segments(n, ranks, rank), shard_segments(n_k, ranks, source)
            for shift in (n_k - n, None):
                assert pairs_of(visible_runs(queries, keys, shift)) == visible_pairs(queries, keys, shift)


def test_runs_of_any_segments() -> None:
    random.seed(5)
    for _ in range(200):
        cuts = sorted(random.sample(range(40), 8))
        segments = list(zip(cuts[::2], cuts[1::2], strict=True))
        random.shuffle(segments)
        queries, keys, shift = segments[:2], sorted(segments[2:]), random.randrange(-20, 20)
        assert pairs_of(visible_runs(queries, keys, shift)) == visible_pairs(queries, keys, shift)


def test_equal_chunks_need_one_call_a_step() -> None:
    """A rank's own block is one causal call.

    An earlier block is all rows by half the keys, a later one the reverse.
    """
    held = [shard_segments(64, 4, rank) for rank in range(4)]
    assert visible_runs(held[1], held[1], 0) == [Run(0, 16, 16, causal=True)]
    assert visible_runs(held[1], held[0], 0) == [Run(0, 16, 8, causal=False)]
    assert visible_runs(held[1], held[2], 0) == [Run(8, 8, 16, causal=False)]
