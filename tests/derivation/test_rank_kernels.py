"""Bytes that each rank's kernels request, against what the program says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ioaware.analysis.theory.counts.gpu_transfers import Problem
from ioaware.analysis.theory.shard_calls import kernel_bytes
from ioaware.derivation.derived import Derived
from ioaware.derivation.exchanges import derive_exchanges
from ioaware.derivation.rank_kernels import derive_rank_kernels
from ioaware.result import total
from ioaware.targets.target import load_target

PROGRAM = """
import torch
import torch.distributed as dist
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

def copies(n: int = 1000, gathers: bool = True, device: str = "cuda"):
    \"\"\"Copy (rank + 1) n numbers, as many as all ranks say, then send n to the next.\"\"\"
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = (rank + 1) * n
    if gathers:
        numbers = torch.tensor([mine], device=device)
        everyone = [torch.empty_like(numbers) for _ in range(ranks)]
        dist.all_gather(everyone, numbers)
        (mine,) = everyone[rank].tolist()
    x = torch.empty(mine, device=device)
    y = torch.empty_like(x)

    def run():
        copy_kernel[(triton.cdiv(mine, 256),)](x, y, mine, BLOCK=256)
        ops = [dist.P2POp(dist.isend, y[:n], (rank + 1) % ranks), dist.P2POp(dist.irecv, x[:n], (rank - 1) % ranks)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
    return run

def sends(device: str = "cuda"):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x = torch.zeros(8, device=device)
    dist.batch_isend_irecv([
        dist.P2POp(dist.isend, x, (rank + 1) % ranks), dist.P2POp(dist.irecv, torch.empty_like(x), (rank - 1) % ranks)
    ])
"""


def kernels(name: str, ranks: int, **params: Any) -> list[Derived | str]:
    target = load_target(name)
    values = target.resolve(params)
    found = derive_exchanges(target, values, ranks)
    return derive_rank_kernels(target, values, found)


def hbm_of(derived: Derived, kernel: str = "") -> tuple[int, int]:
    """Return HBM bytes of the kernels, or of one of them."""
    each = zip(derived.launches, derived.cold_cache, strict=True)
    moved = total(one for launch, one in each if launch.kernel == kernel) if kernel else derived.hbm_of_kernels
    assert moved is not None
    assert moved.read_bytes is not None
    assert moved.write_bytes is not None
    return moved.read_bytes, moved.write_bytes


@pytest.mark.parametrize("gathers", [True, False])
def test_each_rank_has_the_bytes_of_its_own_launches(gathers: bool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    for rank, derived in enumerate(kernels(f"{tmp_path / 'program.py'}:copies", 3, n=1001, gathers=gathers)):
        assert isinstance(derived, Derived)
        assert derived.requested is not None
        size = 4 * 1001 * (rank + 1)
        assert (derived.requested.read_bytes, derived.requested.write_bytes, derived.exact) == (size, size, True)
        assert hbm_of(derived) == (size, size)


def test_a_program_without_kernels_says_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    for derived in kernels(f"{tmp_path / 'program.py'}:sends", 2):
        assert isinstance(derived, str)
        assert "launched no Triton kernel" in derived


@pytest.mark.slow
def test_a_ring_requests_what_its_attention_kernels_request_on_one_gpu() -> None:
    """Without a mask every rank attends to each block of keys, and merges as often."""
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 64}
    ranks = kernels("ioaware.kernels.attention.distributed.rank_targets:forward", 2, **sizes, seq_len=1024)
    alone = kernels("ioaware.kernels.attention.distributed.rank_targets:forward", 1, **sizes, seq_len=512)
    for derived in ranks:
        assert isinstance(derived, Derived)
        names = [launch.kernel for launch in derived.launches if launch.origin == "triton"]
        assert names == ["hopper_forward_kernel", "merge_kernel"] * 2
        (one,) = alone
        assert isinstance(one, Derived)
        assert derived.requested is not None
        assert one.requested is not None
        assert one.requested.read_bytes is not None
        assert one.requested.write_bytes is not None
        assert derived.requested.read_bytes == 2 * one.requested.read_bytes
        assert derived.requested.write_bytes == 2 * one.requested.write_bytes


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("method", ["ring", "all_to_all"])
def test_attention_kernels_move_the_predicted_bytes_at_hbm(method: Any, causal: bool) -> None:
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 64, "seq_len": 1000}
    problem = Problem(ranks=2, batch=1, heads=4, kv_heads=2, seq_len=1000, kv_len=1000, head_dim=64, grid=(2, 1))
    predicted = kernel_bytes(method, "forward", problem, 2, causal=causal, block_m=128, block_n=64).hbm
    target = "ioaware.kernels.attention.distributed.rank_targets:forward"
    first = kernels(target, 2, **sizes, method=method, causal=causal)[0]
    assert isinstance(first, Derived)
    assert sum(hbm_of(first, "hopper_forward_kernel")) == predicted
    assert (sum(hbm_of(first)) > predicted) == (method == "ring")  # which merges partial results


def test_a_kernel_whose_bytes_data_decide_has_no_hbm_bytes(tmp_path: Path) -> None:
    program = PROGRAM.replace("tl.load(x + i, mask=i < n)", "tl.load(x + tl.load(x + i, mask=i < n).to(tl.int32), mask=i < n)")
    (tmp_path / "program.py").write_text(program.replace("x + i, mask=i < n).to", "x + i, mask=i < tl.load(x)).to"))
    derived = kernels(f"{tmp_path / 'program.py'}:copies", 2)[0]
    assert isinstance(derived, Derived)
    assert not derived.exact
    assert derived.hbm_of_kernels is None


def test_a_case_runs_whole_on_every_gpu() -> None:
    first, second = kernels("flash2", 2, seq_len=512)
    assert isinstance(first, Derived)
    assert isinstance(second, Derived)
    assert first.requested == second.requested
    rows = 512 * 64 * 2
    assert hbm_of(first) == (3 * rows, rows + 4 * 512)  # K and V once, which are requested for each row block
