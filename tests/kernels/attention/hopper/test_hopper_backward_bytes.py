"""Bytes and FLOPs of the Hopper backward kernels: derived, by hand, measured.

They are measured on an H200.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ioaware.derivation.derive import derive
from ioaware.kernels.attention.hopper.backward import is_fused
from ioaware.kernels.attention.hopper.backward_pass.backward_config import FUSED_ROWS, BackwardTiling, last_round
from ioaware.result import Result
from ioaware.sweep.claim_evidence import recorded_measurements
from ioaware.targets.target import load_target

TARGET = "ioaware.kernels.attention.targets:hopper_backward"
SIZE = 2  # bytes of fp16
ROW = 8  # the log-sum-exp and D of a row
SMS = 132

Bytes = tuple[int, int, int]  # read, written, added to


def visible_block_pairs(seq_len: int, block_m: int, block_n: int, causal: bool) -> int:
    """Return the number of pairs of a row and a column block with a visible key.

    In such a pair, a row sees a key.
    """
    rows, cols = seq_len // block_m, seq_len // block_n
    return sum((i + 1) * block_m > j * block_n for i in range(rows) for j in range(cols)) if causal else rows * cols


def in_one_kernel(heads: int, seq_len: int, head_dim: int, causal: bool) -> list[Bytes]:
    """Return the bytes of preprocess, the fused kernel, and postprocess.

    Preprocess gives D and zeros, and postprocess dQ.
    """
    block_m = FUSED_ROWS[head_dim]
    numbers = seq_len * head_dim
    visible = visible_block_pairs(seq_len, block_m, 128, causal)
    prepare = (2 * numbers * SIZE + 4 * seq_len, ROW * seq_len + 4 * numbers, 0)
    kernel = (
        2 * numbers * SIZE + visible * block_m * (2 * head_dim * SIZE + ROW),
        2 * numbers * SIZE,
        visible * block_m * head_dim * 4,
    )
    finish = (4 * numbers, numbers * SIZE, 0)
    return [(heads * read, heads * write, heads * add) for read, write, add in (prepare, kernel, finish)]


def with_a_last_round_by_rows(heads: int, seq_len: int, head_dim: int, causal: bool) -> list[Bytes]:
    """Return the bytes where the last round's column blocks are split by rows.

    Each program of the last round loads the column blocks of which it has rows, and adds its dK and dV to float32 sums. The
    preprocess kernel zeroes these sums, and a fourth kernel converts them to dK and dV. Otherwise as in_one_kernel.
    """
    rows = seq_len // FUSED_ROWS[head_dim]
    _, left, share = last_round(heads * seq_len // 128, rows, SMS)
    parts = len({(row // rows, row // share) for row in range(left * rows)})
    of_block = 2 * 128 * head_dim  # numbers of K and V, of dK and dV
    prepare, (read, written, added), finish = in_one_kernel(heads, seq_len, head_dim, causal)
    return [
        (prepare[0], prepare[1] + left * of_block * 4, 0),
        (read + (parts - left) * of_block * SIZE, written - left * of_block * SIZE, added + parts * of_block * 4),
        finish,
        (left * of_block * 4, left * of_block * SIZE, 0),
    ]


def by_whole_heads(heads: int, seq_len: int, head_dim: int, causal: bool) -> list[Bytes]:
    """Return the bytes of preprocess (D) and of the kernel for whole heads.

    A program has whole heads.

    The kernel writes the first part of dQ's sums, adds the other parts, and reads the sums for dQ.
    """
    numbers = seq_len * head_dim
    prepare, (read, written, added), finish = in_one_kernel(1, seq_len, head_dim, causal)
    read, written, added = read + finish[0], written + finish[1] + 4 * numbers, added - 4 * numbers
    kernels = [(prepare[0], prepare[1] - 4 * numbers, 0), (read, written, added)]
    return [(heads * read, heads * write, heads * add) for read, write, add in kernels]


def in_two_kernels(heads: int, seq_len: int, head_dim: int, causal: bool) -> list[Bytes]:
    """Return the bytes of three kernels: preprocess (D), dK and dV, and dQ."""
    block_n = 128 if head_dim == 64 else 64
    numbers = seq_len * head_dim
    prepare = (2 * numbers * SIZE + 4 * seq_len, ROW * seq_len, 0)
    visible = visible_block_pairs(seq_len, 64, 64, causal)
    keys_values = (2 * numbers * SIZE + visible * 64 * (2 * head_dim * SIZE + ROW), 2 * numbers * SIZE, 0)
    visible = visible_block_pairs(seq_len, 128, block_n, causal)
    queries = (2 * numbers * SIZE + ROW * seq_len + visible * block_n * 2 * head_dim * SIZE, numbers * SIZE, 0)
    return [(heads * read, heads * write, heads * add) for read, write, add in (prepare, keys_values, queries)]


def flops(heads: int, seq_len: int, head_dim: int, *, causal: bool, fused: bool) -> int:
    """Return the FLOPs: five matmuls for each pair of blocks if fused.

    Otherwise, these are four and three.

    With rows of 128, each column block has one more matmul for dQ, whose result is not added. With rows of 64 under a causal
    mask, half of four matmuls is skipped for each.
    """
    if fused:
        block_m = FUSED_ROWS[head_dim]
        besides = -2 if (head_dim, causal) == (128, True) else int(head_dim == 64)
        matmuls = 5 * visible_block_pairs(seq_len, block_m, 128, causal) + besides * seq_len // 128
        return heads * matmuls * 2 * block_m * 128 * head_dim
    block_n = 128 if head_dim == 64 else 64
    keys_values, queries = visible_block_pairs(seq_len, 64, 64, causal), visible_block_pairs(seq_len, 64, block_n, causal)
    return heads * 2 * head_dim * (4 * keys_values * 64 * 64 + 3 * queries * 64 * block_n)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("heads", "seq_len", "head_dim", "by_hand"),
    [
        (3, 512, 128, in_one_kernel),
        (2, 1024, 64, in_one_kernel),
        (2, 256, 256, in_two_kernels),
        (132, 512, 64, by_whole_heads),
        (264, 256, 128, by_whole_heads),
        (5, 768, 128, with_a_last_round_by_rows),  # no round before it
        (13, 1536, 128, with_a_last_round_by_rows),  # one, and parts of two column blocks
    ],
)
def test_derived_and_by_hand(
    heads: int, seq_len: int, head_dim: int, by_hand: Callable[[int, int, int, bool], list[Bytes]], causal: bool
) -> None:
    if by_hand is with_a_last_round_by_rows and causal:
        by_hand = in_one_kernel
    target = load_target(TARGET)
    point = {"heads": heads, "seq_len": seq_len, "head_dim": head_dim, "causal": causal, "deterministic": False}
    derived = derive(target, target.resolve(point), machine_code=False)
    fused = is_fused(head_dim, deterministic=False)
    requested = [launch.requested for launch in derived.launches if launch.requested]
    found = [(one.read_bytes, one.write_bytes, one.atomic_bytes) for one in requested]
    assert found == by_hand(heads, seq_len, head_dim, causal)
    if (heads, seq_len) != (13, 1536) or causal:  # sectors of tiles numbered by rounds are not derived
        assert [(one.read_sector_bytes, one.write_sector_bytes) for one in requested] == [each[:2] for each in found]
    assert derived.exact
    assert sum(launch.flops or 0 for launch in derived.launches) == flops(heads, seq_len, head_dim, causal=causal, fused=fused)


def test_sizes_stay_symbolic_where_no_round_is_split() -> None:
    """Capture follows a batch of 1 as 2.

    At 2 the last round would be split, and sizes would become numbers.
    """
    target = load_target(TARGET)
    derived = derive(target, target.resolve({"heads": 16, "seq_len": 4096}), machine_code=False)
    assert derived.formulas is not None
    assert str(derived.formulas.atomic_bytes) == "4*heads*seq_len**2"


READS_MORE = [(256, 512, 128), (64, 4096, 128)]
"""Heads, seq_len and head_dim where the preprocess kernel reads extra bytes.

The measured preprocess kernel reads more bytes than its inputs have.
"""
RECORDED = [record for record in recorded_measurements() if record.target == TARGET]


@pytest.mark.parametrize(
    "record", RECORDED, ids=lambda r: "-".join(str(r.params[x]) for x in ("heads", "seq_len", "head_dim", "causal"))
)
def test_measured_and_by_hand(record: Result) -> None:
    """Counters include additions to memory in the writes.

    An L1 hit serves some of the row statistics that the dK and dV kernel loads. At two points the preprocess kernel reads up to
    0.02 % more than its inputs.
    """
    heads, seq_len, head_dim, causal = (int(record.params[name] or 0) for name in ("heads", "seq_len", "head_dim", "causal"))
    if is_fused(head_dim, deterministic=bool(record.params["deterministic"])):
        tiling = BackwardTiling.of(head_dim, seq_len, seq_len, 1, heads, SMS, causal=bool(causal))
        by_hand = by_whole_heads if tiling.whole else with_a_last_round_by_rows if tiling.share else in_one_kernel
    else:
        by_hand = in_two_kernels
    expected = by_hand(heads, seq_len, head_dim, causal=bool(causal))
    for launch, (read, written, added) in zip(record.launches, expected, strict=True):
        assert launch.requested is not None
        assert launch.local_bytes == 0
        more = 2e-4 if (heads, seq_len, head_dim) in READS_MORE else 0
        served = {"dkdv_kernel": 2e-3 if causal else 0, "prepare_kernel": more}.get(launch.kernel, 0)
        assert launch.requested.read_bytes == pytest.approx(read, rel=served, abs=0), launch.kernel
        assert launch.requested.write_bytes == written + added, launch.kernel
