from __future__ import annotations

import itertools
import random
from dataclasses import replace
from statistics import median

import pytest

from ioaware.analysis.theory.counts.gpu_transfers import METHODS, PASSES, Problem, moved, shard_rows
from ioaware.analysis.theory.fewest_transfers import choices
from ioaware.analysis.theory.gpu_plan import plans
from ioaware.analysis.theory.shard_calls import calls, kernel_bytes
from ioaware.bench.multi_gpu.link_record import read_exchanges
from ioaware.kernels.attention.distributed.context_parallel import METHODS as METHODS_OF_KERNELS
from ioaware.kernels.attention.distributed.sharding import shard_length, shard_segments, visible_runs
from ioaware.machine import PRESETS, find_machine
from ioaware.prediction import predict
from tests.support import ROOT

NVLINK = ROOT / "ioaware/recorded/several_gpus/h200-nvlink.jsonl"
LONG = Problem(1, 32, 8, 2**17, 2**17, 128, 8, (8, 1))


def test_the_kernels_split_and_name_as_the_counts_do() -> None:
    assert METHODS == METHODS_OF_KERNELS
    for length, ranks in itertools.product((1, 7, 64, 100), (1, 2, 5, 8)):
        assert [shard_rows(length, ranks, r) for r in range(ranks)] == [shard_length(length, ranks, r) for r in range(ranks)]


def test_the_first_choice_receives_least_on_its_busiest_gpu() -> None:
    for problem in (LONG, replace(LONG, kv_heads=1), replace(LONG, seq_len=1001, kv_len=77, ranks=6, heads=6, kv_heads=6)):
        best, *others = choices(problem, 2)
        grids = [(rows, problem.ranks // rows) for rows in range(1, problem.ranks + 1) if problem.ranks % rows == 0]
        for method, grid in [*itertools.product(("ring", "all_gather"), grids[:1]), *(("square", grid) for grid in grids)]:
            total = sum(
                max(moved(method, one, replace(problem, grid=grid), gpu).received_bytes(2) for gpu in range(problem.ranks))
                for one in PASSES
            )
            assert best.total_bytes <= total
        assert [one.total_bytes for one in others if not one.why_not] == sorted(o.total_bytes for o in others if not o.why_not)


def test_a_method_that_cannot_run_comes_last_and_says_why() -> None:
    *_, last = choices(replace(LONG, heads=6, kv_heads=6), 2)
    assert last.method == "all_to_all"
    assert last.why_not == "6 heads and 6 key heads cannot be divided among 8 GPUs"
    assert "all_to_all" not in {
        row.method for row in plans(replace(LONG, heads=6), PRESETS["H200"], "float16", causal=False, block_m=64, block_n=64)[0]
    }


@pytest.mark.parametrize("causal", [False, True])
def test_a_plan_adds_up(causal: bool) -> None:
    """FLOPs of all GPUs are those of the case.

    A ring requests what P small attentions request; times are bytes over rates.
    """
    h200, sizes = find_machine("H200"), {"heads": 32, "kv_heads": 8, "head_dim": 128}
    whole = predict("gqa", seq_len=2**17, **sizes, causal=causal, block_m=128, block_n=1)
    rows, _ = plans(LONG, h200, "float16", causal=causal, block_m=128, block_n=64)
    assert [row.direction for row in rows[:2]] == ["forward", "backward"]
    for row in rows:
        assert row.flops * LONG.ranks == pytest.approx(whole.flops * (1 if row.direction == "forward" else 2.5), rel=1e-3)
        assert row.link_ns == pytest.approx(row.received_bytes / 384)
        assert row.binds == "matmul"
        assert row.requested_bytes > row.hbm_bytes
    if causal:
        return
    part = predict("gqa", seq_len=2**14, **sizes, block_m=128)
    ring = next(row for row in rows if row.method == "ring" and row.direction == "forward")
    assert part.requested is not None
    assert part.compulsory is not None
    assert ring.requested_bytes == 8 * part.requested.total_bytes
    assert ring.hbm_bytes == 8 * (part.compulsory.total_bytes + 4 * 32 * 2**14)  # and the log-sum-exp
    assert ring.received_bytes == 2 * 8 * 2**17 * 128 * 7 // 8 * 2


def test_the_counted_calls_are_the_kernels_runs() -> None:
    """They are equal to those of `context_parallel` at random shards."""
    rng = random.Random(18)
    for _ in range(300):
        ranks, length, kv_len = rng.randrange(1, 6), rng.randrange(1, 60), rng.randrange(1, 60)
        queries, keys = (shard_segments(n, ranks, rng.randrange(ranks)) for n in (length, kv_len))
        shift = rng.choice((None, kv_len - length))
        runs = [(run.rows, run.keys, run.causal) for run in visible_runs(queries, keys, shift)]
        assert [(call.rows, call.keys, call.causal) for call in calls(queries, keys, shift)] == runs


def test_a_causal_ring_requests_what_its_calls_request() -> None:
    """GPU 0 of two: its own block, and half of its rows on the other block."""
    problem = Problem(1, 4, 2, 4096, 4096, 64, 2, (2, 1))
    found = kernel_bytes("ring", "forward", problem, 2, causal=True, block_m=128, block_n=64)
    own = predict("flash2", heads=4, seq_len=2048, head_dim=64, causal=True, block_m=128, block_n=64).requested
    other = predict("flash2", heads=4, seq_len=1024, kv_len=2048, head_dim=64, block_m=128, block_n=64).requested
    assert own is not None
    assert other is not None
    assert found.requested == own.total_bytes + other.total_bytes
    rows, keys = 4 * 3072, 2 * 4096
    assert found.hbm == 2 * 64 * 2 * (rows + keys) + 4 * rows
    back = kernel_bytes("ring", "backward", problem, 2, causal=True, block_m=128, block_n=64)
    assert back.hbm == 2 * 2 * 64 * 2 * (rows + keys) + 4 * rows
    assert back.requested > found.requested


def test_short_sequences_on_many_gpus_are_bound_by_the_link() -> None:
    rows, _ = plans(
        replace(LONG, seq_len=2**13, kv_len=2**13, kv_heads=32),
        find_machine("H200"),
        "float16",
        causal=False,
        block_m=128,
        block_n=64,
    )
    assert {row.binds for row in rows if row.method == "ring"} == {"NVLink"}


def test_only_gpus_with_nvlink_have_a_link_and_each_has_a_source() -> None:
    linked = {name: machine.link.bandwidth_bytes_per_s for name, machine in PRESETS.items() if machine.link}
    assert linked == {"A100": 300e9, "H100": 450e9, "H200": 450e9, "B200": 900e9}
    assert all("half of the" in machine.link.source for machine in PRESETS.values() if machine.link)


def test_the_link_of_an_h200_reaches_what_recorded_copies_do() -> None:
    record = next(one for one in read_exchanges(NVLINK) if one.point["size_bytes"] == 2**30)
    copies = record.entry("copy")
    link = find_machine("H200").link
    assert copies is not None
    assert link is not None
    assert link.ceiling_bytes_per_s == pytest.approx(2**30 / median(copies.times_ns) * 1e9, rel=2e-3)
    assert "its vendor says 450 GB/s" in link.ceiling_text
    other = find_machine("H100").link
    assert other is not None
    assert other.ceiling_bytes_per_s == 450e9
