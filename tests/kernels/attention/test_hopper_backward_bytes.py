"""The Hopper backward kernels' bytes and FLOPs without a mask: derived from their IR and written down by hand, the same."""

from __future__ import annotations

import pytest

from ioaware.instruments.derive import derive
from ioaware.instruments.target import load_target
from ioaware.kernels.attention.hopper_gradients import FUSED_ROWS, is_fused

SIZE = 2  # bytes of fp16
ROW = 8  # the log-sum-exp and D of a row

Point = dict[str, int | bool]
Bytes = tuple[int, int, int]  # read, written, added to


def in_one_kernel(heads: int, seq_len: int, head_dim: int) -> list[Bytes]:
    """Before it, D and zeros; the kernel; after it, dQ out of its sums."""
    block_m = FUSED_ROWS[head_dim]
    numbers = seq_len * head_dim
    met = seq_len // block_m * (seq_len // 128)  # pairs of a row block and a column block
    prepare = (2 * numbers * SIZE + 4 * seq_len, ROW * seq_len + 4 * numbers, 0)
    kernel = (
        2 * numbers * SIZE + met * block_m * (2 * head_dim * SIZE + ROW),
        2 * numbers * SIZE,
        met * block_m * head_dim * 4,
    )
    finish = (4 * numbers, numbers * SIZE, 0)
    return [(heads * read, heads * write, heads * add) for read, write, add in (prepare, kernel, finish)]


def in_two_kernels(heads: int, seq_len: int, head_dim: int) -> list[Bytes]:
    """Before them, D; dK and dV; dQ."""
    block_n = 128 if head_dim == 64 else 64
    numbers = seq_len * head_dim
    prepare = (2 * numbers * SIZE + 4 * seq_len, ROW * seq_len, 0)
    met = (seq_len // 64) ** 2
    keys_values = (2 * numbers * SIZE + met * 64 * (2 * head_dim * SIZE + ROW), 2 * numbers * SIZE, 0)
    met = seq_len // 128 * (seq_len // block_n)
    queries = (2 * numbers * SIZE + ROW * seq_len + met * block_n * 2 * head_dim * SIZE, numbers * SIZE, 0)
    return [(heads * read, heads * write, heads * add) for read, write, add in (prepare, keys_values, queries)]


def flops(heads: int, seq_len: int, head_dim: int, *, fused: bool) -> int:
    """Five matmuls a pair of blocks, and one of dQ for each column block of which nothing is added; or seven."""
    matmul = 2 * seq_len**2 * head_dim
    return heads * (5 * matmul + 2 * FUSED_ROWS[head_dim] * seq_len * head_dim if fused else 7 * matmul)


@pytest.mark.parametrize(
    "point",
    [
        {"heads": 3, "seq_len": 512, "head_dim": 128, "deterministic": False},
        {"heads": 2, "seq_len": 1024, "head_dim": 64, "deterministic": False},
        {"heads": 2, "seq_len": 256, "head_dim": 256, "deterministic": False},
    ],
    ids=["one kernel", "one kernel of 64 columns", "two kernels"],
)
def test_derived_and_by_hand(point: Point) -> None:
    target = load_target("ioaware.kernels.attention.targets:hopper_backward")
    derived = derive(target, target.resolve(point), machine_code=False)
    heads, seq_len, head_dim = (int(point[name]) for name in ("heads", "seq_len", "head_dim"))
    fused = is_fused(head_dim, deterministic=bool(point["deterministic"]))
    by_hand = in_one_kernel if fused else in_two_kernels
    requested = [launch.requested for launch in derived.launches if launch.requested]
    found = [(one.read_bytes, one.write_bytes, one.atomic_bytes) for one in requested]
    assert found == by_hand(heads, seq_len, head_dim)
    assert derived.exact
    assert sum(launch.flops or 0 for launch in derived.launches) == flops(heads, seq_len, head_dim, fused=fused)
