"""`context_parallel` on NCCL: two, four or eight GPUs beside float64 and one GPU."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware.analysis.theory.counts.gpu_transfers import PASSES, Problem, moved
from ioaware.kernels.attention.distributed.context_parallel import METHODS, squarest_grid
from ioaware.params import ELEMENT_BYTES
from tests.support.ranks import on_ranks

GPUS = torch.cuda.device_count()
RANKS = 2
"""GPUs of the tests of errors."""
GROUPS = [
    pytest.param(n, marks=pytest.mark.skipif(n > GPUS, reason=f"needs {n} CUDA GPUs, torch sees {GPUS}")) for n in (2, 4, 8)
]
PROGRAMS = "tests.kernels.distributed.rank_programs"
SIZES = {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 512, "kv_len": 512, "head_dim": 128}
SHAPES: tuple[dict[str, int], ...] = (
    {},
    {"seq_len": 777, "kv_len": 333, "head_dim": 64},  # ragged; under a causal mask the first 444 rows see no key
    {"seq_len": 333, "kv_len": 1001},
    {"seq_len": 3, "kv_len": 2},  # fewer rows than chunks: a rank may have none
    {"heads": 8, "kv_heads": 1, "seq_len": 1000, "kv_len": 1000, "head_dim": 64},
)
LIMIT_S = 8

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < RANKS, reason=f"needs {RANKS} CUDA GPUs, torch sees {GPUS}"),
]


def calls(dtype: str, ranks: int) -> list[dict[str, Any]]:
    """Return all shapes in bfloat16, and a plain and a ragged one in float16.

    An all-to-all has at least as many heads as ranks. Why: each shape compiles its own kernels, and the transfers know
    bytes alone.
    """
    shapes = SHAPES if dtype == "bfloat16" else SHAPES[:2]
    found: list[dict[str, Any]] = [
        {"sizes": {**SIZES, **shape, **_heads(method, ranks)}, "method": method, "causal": causal, "dtype": dtype}
        for method, causal, shape in itertools.product(METHODS, (False, True), shapes)
    ]
    one_row: list[dict[str, Any]] = [
        {"sizes": {**SIZES, **SHAPES[1]}, "method": "square", "causal": causal, "grid": (1, ranks), "dtype": dtype}
        for causal in (False, True)
    ]
    return [*found, *one_row]


def _heads(method: str, ranks: int) -> dict[str, int]:
    return {"heads": 16} if method == "all_to_all" and ranks > SIZES["heads"] else {}


@pytest.mark.parametrize("ranks", GROUPS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_several_gpus_equal_one_gpu_with_gradients_and_move_the_bytes_of_the_closed_forms(
    dtype: str, ranks: int, tmp_path: Path
) -> None:
    cases = calls(dtype, ranks)
    shapes = [{"sizes": case["sizes"], "causal": case["causal"], "dtype": dtype} for case in cases]
    alone = on_ranks(f"{PROGRAMS}:alone", 1, tmp_path / "one", backend="nccl", calls=shapes)[0]
    found = on_ranks(
        f"{PROGRAMS}:errors", ranks, tmp_path / "several", backend="nccl", calls=[{**case, "device": "cuda"} for case in cases]
    )
    for index, (case, one) in enumerate(zip(cases, alone, strict=True)):
        worst = max(rank[index]["error"] for rank in found)
        assert worst <= max({"float16": 4e-3, "bfloat16": 2e-2}[dtype], 1.5 * one), (case, worst, one)
        problem = Problem(**case["sizes"], ranks=ranks, grid=case.get("grid", squarest_grid(ranks)))
        for (rank, seen), direction in itertools.product(enumerate(found), PASSES):
            counted, bytes_ = moved(case["method"], direction, problem, rank), seen[index][direction]
            element = ELEMENT_BYTES[dtype]
            assert (bytes_["received"], bytes_["sent"]) == (counted.received_bytes(element), counted.sent_bytes(element))


@pytest.mark.parametrize(("method", "backward"), [("ring", True), ("all_to_all", False)])
def test_a_rank_that_dies_is_one_error_within_the_time_limit(method: str, backward: bool, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"method": method, "backward": backward, "device": "cuda", "limit_s": LIMIT_S}
    first, dead = on_ranks(f"{PROGRAMS}:dies_in_the_middle", RANKS, tmp_path, backend="nccl", **arguments)
    assert dead is None
    seconds, error = first
    assert error.startswith(f"MachineError: context_parallel, {method}, rank 0 of 2: a transfer with rank 1 did not complete")
    assert seconds < LIMIT_S + 60


def test_a_rank_that_never_calls_is_one_error_after_the_time_limit(tmp_path: Path) -> None:
    (seconds, error), _ = on_ranks(f"{PROGRAMS}:never_comes", RANKS, tmp_path, backend="nccl", device="cuda")
    assert "a transfer with rank 1 did not complete (not complete after 2 s)" in error
    assert 2 <= seconds < 60


def test_bad_calls_are_one_error_on_every_rank_and_leave_the_group_usable(tmp_path: Path) -> None:
    first, second = on_ranks(f"{PROGRAMS}:errors_on_gpus", RANKS, tmp_path, backend="nccl")
    assert "tensors on cuda:0, but rank 1 of the group is on cuda:1" in second[0]
    assert "rank 1 of 2 refused its arguments" in first[0]
    shared = (
        "tensors on cpu in a group of nccl",
        "method differs between rank 0 and rank 1",
        "holds 8 rows of q, not 7 of 15",
        "grid=(3, 1) is not (rows, columns) of 2 ranks",
    )
    for seen in (first, second):
        for text, error in zip(shared, seen[1:], strict=True):
            assert error.startswith("UsageError"), error
            assert text in error
