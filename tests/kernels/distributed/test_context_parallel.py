from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware.analysis.theory.counts.gpu_transfers import PASSES, Problem, moved
from ioaware.errors import UsageError
from ioaware.kernels.attention import context_parallel
from ioaware.kernels.attention.distributed.agreement import AGREEMENT_BYTES
from ioaware.kernels.attention.distributed.context_parallel import METHODS, squarest_grid
from ioaware.params import ELEMENT_BYTES
from tests.support import ROOT
from tests.support.ranks import HUNG_S, on_ranks

PROGRAMS = "tests.kernels.distributed.rank_programs"
TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}
SIZES = {"batch": 1, "heads": 4, "kv_heads": 2, "seq_len": 23, "kv_len": 23, "head_dim": 8}
UNSEEN = {"seq_len": 30, "kv_len": 9}
"""Under a causal mask the first 21 rows see no key."""
FEWER_ROWS_THAN_RANKS = {"seq_len": 3, "kv_len": 2, "batch": 2}


def check(ranks: int, calls: list[dict[str, Any]], folder: Path) -> None:
    """Compare each call with one process, and each rank's bytes with the closed form.

    The bytes are as torch.distributed was given them.
    """
    found = on_ranks(f"{PROGRAMS}:errors", ranks, folder, calls=calls)
    for index, call in enumerate(calls):
        dtype = call.get("dtype", "float32")
        worst = max(rank[index]["error"] for rank in found)
        assert worst < TOLERANCE[dtype], (ranks, call, worst)
        problem = Problem(**{"batch": 1, **call["sizes"]}, ranks=ranks, grid=tuple(call.get("grid", squarest_grid(ranks))))
        for rank, seen in enumerate(found):
            for direction in PASSES:
                counted = moved(call["method"], direction, problem, rank)
                expected = counted.received_bytes(ELEMENT_BYTES[dtype]), counted.sent_bytes(ELEMENT_BYTES[dtype])
                assert (seen[index][direction]["received"], seen[index][direction]["sent"]) == expected, (call, rank, direction)
            assert seen[index]["forward"]["agreement"] == AGREEMENT_BYTES * (ranks - 1)
            assert seen[index]["backward"]["agreement"] == 0


def test_four_ranks_equal_one_process_with_gradients(tmp_path: Path) -> None:
    calls = [{"sizes": SIZES, "method": method, "causal": True} for method in METHODS]
    calls += [{"sizes": {**SIZES, "kv_len": 37}, "method": method} for method in ("ring", "square")]
    check(4, [*calls, {"sizes": {**SIZES, **UNSEEN}, "method": "ring", "causal": True}], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_any_number_of_ranks_equals_one_process(ranks: int, tmp_path: Path) -> None:
    shapes = ({}, {"kv_len": 37}, UNSEEN, FEWER_ROWS_THAN_RANKS, {"seq_len": 64, "kv_len": 64})
    heads = 3 if ranks == 3 else 8
    calls = [
        {"sizes": {**SIZES, "heads": heads, "kv_heads": 3 if ranks == 3 else 2, **shape}, "method": method, "causal": causal}
        for method, causal, shape in itertools.product(METHODS, (False, True), shapes)
    ]
    calls += [
        {"sizes": {**SIZES, "heads": 24, "kv_heads": 24}, "method": "all_to_all", "causal": True, "dtype": "bfloat16"},
        {"sizes": {**SIZES, "heads": 1, "kv_heads": 1}, "method": "square", "causal": True, "grid": (1, ranks)},
        {"sizes": SIZES, "method": "ring", "causal": True, "dtype": "bfloat16", "scale": 8**-0.5, "timeout_s": 100.0},
    ]
    check(ranks, calls, tmp_path)


@pytest.mark.slow
def test_bytes_of_random_calls_are_the_closed_forms(tmp_path: Path) -> None:
    random.seed(18)
    calls: list[dict[str, Any]] = []
    for _ in range(40):
        kv_heads = random.choice((1, 2, 4))
        sizes = {
            "batch": random.randrange(1, 3),
            "heads": kv_heads * random.choice((1, 4)),
            "kv_heads": kv_heads,
            "seq_len": random.randrange(1, 70),
            "kv_len": random.randrange(1, 70),
            "head_dim": random.randrange(1, 9),
        }
        method = random.choice([m for m in METHODS if m != "all_to_all" or sizes["heads"] % 4 == 0])
        call = {"sizes": sizes, "method": method, "causal": random.random() < 0.5}
        calls.append({**call, "grid": random.choice(((4, 1), (2, 2), (1, 4)))} if method == "square" else call)
    check(4, calls, tmp_path)


@pytest.mark.slow
def test_six_ranks_on_a_grid_that_is_not_square(tmp_path: Path) -> None:
    calls = [
        {"sizes": {**SIZES, "seq_len": 47, "kv_len": 50}, "method": "square", "causal": True, "grid": grid}
        for grid in ((3, 2), (2, 3), (6, 1), (1, 6))
    ]
    check(6, calls, tmp_path)


def test_the_grid_is_the_squarest() -> None:
    assert [squarest_grid(ranks) for ranks in (1, 2, 4, 6, 7, 12, 16)] == [
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 2),
        (7, 1),
        (4, 3),
        (4, 4),
    ]


def test_without_a_group_there_is_one_error() -> None:
    x = torch.zeros(1, 1, 4, 8)
    with pytest.raises(UsageError, match="there is no process group"):
        context_parallel(x, x, x)


@pytest.mark.slow
def test_bad_calls_fail_on_every_rank_and_leave_the_group_usable(tmp_path: Path) -> None:
    first, second = on_ranks(f"{PROGRAMS}:errors_of_bad_calls", 2, tmp_path)
    assert "rank 1 of 2 refused its arguments" in first[0]
    assert "the shapes do not match, q [1, 2, 4, 8], k [1, 2, 4, 8], v [1, 2, 4, 16]" in second[0]
    on_both = (
        "method differs between rank 0 and rank 1",
        "dtype differs between rank 0 and rank 1: float32 on rank 0, float16 on rank 1",
        "causal differs between rank 0 and rank 1: false on rank 0, true on rank 1",
        "rank 0 of 2 holds 4 rows of q, not 3 of 7",
        "3 heads and 3 key heads cannot be divided among 2 ranks",
        "8 heads cannot share 3 key heads evenly",
        "grid=(3, 1) is not (rows, columns) of 2 ranks",
        "takes no grid",
        "there is no method 'star'",
        "q have no rows on any rank",
        "devices q meta, k meta, v meta cannot work",
        "timeout_s=-1 is not a number of seconds",
    )
    for seen in (first, second):
        for text, error in zip(on_both, seen[1:], strict=True):
            assert text in error
            assert error.startswith("UsageError")


@pytest.mark.slow
def test_what_one_rank_refuses_is_an_error_on_every_rank(tmp_path: Path) -> None:
    *others, last = on_ranks(f"{PROGRAMS}:errors_of_the_last_rank", 3, tmp_path)
    assert len(last) == 11
    for said in last:
        assert said.startswith("UsageError: "), said
    for other in others:
        assert len(other) == 11
        assert all("rank 2 of 3 refused its arguments" in error for error in other), other


@pytest.mark.slow
def test_a_rank_outside_the_group_is_refused(tmp_path: Path) -> None:
    inside, outside = on_ranks(f"{PROGRAMS}:errors_of_outsiders", 2, tmp_path)
    assert inside == "no error"
    assert "this process is not in the group" in outside


@pytest.mark.slow
@pytest.mark.parametrize(("method", "backward"), [("ring", True), ("all_to_all", False), ("square", True)])
def test_a_rank_that_dies_is_one_error_on_every_other(method: str, backward: bool, tmp_path: Path) -> None:
    *survivors, dead = on_ranks(f"{PROGRAMS}:dies_in_the_middle", 3, tmp_path, method=method, backward=backward)
    assert dead is None
    for rank, (seconds, error) in enumerate(survivors):
        assert error.startswith(f"MachineError: context_parallel, {method}, rank {rank} of 3: a transfer with")
        assert "did not complete" in error
        assert seconds < HUNG_S / 2


@pytest.mark.slow
def test_a_rank_that_never_calls_is_an_error_after_the_time_limit(tmp_path: Path) -> None:
    first, second, _ = on_ranks(f"{PROGRAMS}:never_comes", 3, tmp_path)
    for seconds, error in (first, second):
        assert "did not complete" in error
        assert "the time limit was 2 s" in error
        assert seconds < HUNG_S / 2


@pytest.mark.slow
def test_the_program_of_the_documents_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "context-parallel.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python several\.py\n(.*?)```", page, re.DOTALL)
    (tmp_path / "several.py").write_text(code)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "several.py", "2"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HUNG_S, check=False
    )  # fmt: skip
    printed = re.findall(r"rank \d+: \w+?(?=rank|\s|$)", done.stdout)  # of two processes: newlines may come late
    assert sorted(printed) == ["rank 0: True", "rank 1: True"], done.stderr
