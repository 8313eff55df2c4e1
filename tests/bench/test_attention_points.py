"""The grid of attention points: shapes of the goals, FLOPs and bytes.

Refused options are tested too.
"""

from __future__ import annotations

import pytest

from ioaware.bench.attention_points import PASSES, Point, grid
from ioaware.errors import UsageError


def test_forward_and_backward_have_the_tokens_and_width_of_the_papers() -> None:
    for what in ("forward", "backward"):
        points = grid([what])
        assert len(points) == len(set(points)) == 36
        assert {(p.head_dim, p.causal, p.seq_len) for p in points} == {
            (d, causal, n) for d in (64, 128, 256) for causal in (False, True) for n in (512, 1024, 2048, 4096, 8192, 16384)
        }
        assert all(p.batch * p.seq_len == 16384 and p.heads * p.head_dim == 2048 and p.seq_len == p.kv_len for p in points)


def test_decode_reads_256_mb_or_more_and_has_grouped_heads_and_several_rows() -> None:
    points = grid(["decode"])
    assert len(points) == len(set(points)) == 45
    assert {p.kv_len for p in points} == {8192, 16384, 32768, 65536, 131072}
    assert all(2 * p.batch * p.kv_heads * p.kv_len * p.head_dim * 2 >= 2**28 for p in points)
    assert {(p.seq_len, p.heads // p.kv_heads) for p in points} == {(1, 1), (1, 8), (4, 4)}
    assert not any(p.causal for p in points)


def test_the_default_grid_has_all_three_passes() -> None:
    assert [p.what for p in grid()] == [what for what in PASSES for _ in range(45 if what == "decode" else 36)]


def test_options_choose_points() -> None:
    (point,) = grid(["backward"], [96], [3000], (), True, "float16")
    assert point == Point("backward", 5, 21, 21, 3000, 3000, 96, True, "float16")
    assert len(grid(["decode"], [128], (), [10000])) == 3
    assert {p.causal for p in grid(["forward"], causal=False)} == {False}
    assert {p.what for p in grid(["forward", "decode"], causal=True)} == {"forward"}


def test_flops_and_bytes_as_papers_count_them() -> None:
    """Dao 2023, section 4.1: 4 N^2 d heads, half under the mask.

    The backward pass has 2.5 times that.
    """
    forward = Point("forward", 1, 16, 16, 16384, 16384, 128, False, "bfloat16")
    assert forward.flops == 4 * 16384**2 * 2048
    assert grid(["backward"], [128], [16384], (), True)[0].flops == forward.flops * 5 // 4
    assert forward.compulsory_bytes == 4 * 16384 * 2048 * 2
    decode = Point("decode", 2, 32, 8, 1, 65536, 128, False, "bfloat16")
    assert decode.compulsory_bytes == 2 * 2 * (2 * 8 * 65536 * 128 + 2 * 32 * 128)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"passes": ["sideways"]}, "sideways"),
        ({"head_dims": [0]}, "--head-dim 0"),
        ({"seq_lens": [2**21]}, "--seq-len"),
        ({"kv_lens": [-1]}, "--kv-len -1"),
        ({"dtype": "float32"}, "float32"),
        ({"passes": ["decode"], "causal": True}, "no point"),
    ],
)
def test_impossible_options_are_refused_by_name(options: dict, word: str) -> None:
    with pytest.raises(UsageError) as refused:
        grid(**options)
    assert word in refused.value.what


def test_a_point_survives_its_record() -> None:
    for point in grid():
        assert Point.of(point.to_dict()) == point
    assert grid()[0].to_dict()["pass"] == "forward"  # noqa: S105 - a forward pass, no password


@pytest.mark.parametrize(
    "change", [{"pass": "x"}, {"batch": 0}, {"batch": True}, {"causal": 1}, {"dtype": "int8"}, {"kv_heads": 3}, {"more": 1}]
)
def test_a_forged_point_is_refused(change: dict) -> None:
    with pytest.raises((ValueError, TypeError)):
        Point.of(grid()[0].to_dict() | change)
