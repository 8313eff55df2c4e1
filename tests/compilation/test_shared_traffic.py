"""Bytes of shared memory of compiled kernels, against hand counts of their tiles."""

from __future__ import annotations

from collections import Counter

import pytest

from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.shared_traffic import shared_traffic
from ioaware.report.pages.shared_lines import SharedBytes, shared_lines
from ioaware.targets.target import load_target

TILE = 64 * 64 * 2
"""Bytes of a tile of 64 rows and a head_dim of 64 in float16."""


def moved(name: str, **params: int | bool) -> dict[str, Counter[tuple[str, str]]]:
    """Return bytes by kernel, and by way and operation."""
    target = load_target(name)
    captured = capture(target, target.resolve(params), gpu=DEFAULT_GPU)
    found: dict[str, Counter[tuple[str, str]]] = {}
    for event in captured.events:
        if isinstance(event, CapturedLaunch):
            sums = found.setdefault(event.name, Counter())
            for one in shared_traffic(event, captured.values, DEFAULT_GPU):
                assert one.bytes is not None
                assert one.frames
                sums[one.way, one.operation] += int(one.bytes.evaluate({}))  # type: ignore[call-overload]
    return found


@pytest.mark.parametrize("causal", [False, True])
def test_flash2_reads_q_and_k_for_scores_and_v_for_the_output(causal: bool) -> None:
    """Each visited block takes two products.

    Of Q and K, both in shared memory, and of P in registers and V.
    """
    found = moved("flash2", seq_len=1024, heads=2, causal=causal)["flash2_kernel"]
    rows, heads = 1024 // 64, 2
    visited = heads * (rows * (rows + 1) // 2 if causal else rows * rows)
    assert found["out", "ttng.warp_group_dot"] == visited * 3 * TILE
    assert found["in", "ttg.local_alloc"] == heads * rows * TILE  # Q once a program
    assert found["in", "ttg.async_copy_global_to_local"] >= visited * 2 * TILE  # K and V, and what the pipeline fetches ahead


def test_a_product_of_two_tiles() -> None:
    found = moved("standard", seq_len=256)
    assert found["standard_scores"] == {
        ("in", "ttg.local_alloc"): 4 * 4 * 2 * TILE,
        ("out", "ttng.warp_group_dot"): 4 * 4 * 2 * TILE,
    }
    assert not found["standard_softmax"]


def test_a_line_has_what_the_functions_that_it_calls_move() -> None:
    target = load_target("standard")
    found = shared_lines(capture(target, target.resolve({"seq_len": 256}), gpu=DEFAULT_GPU), DEFAULT_GPU)
    lines = found.kernels["standard_scores"]
    files = {name for name, _ in lines}
    assert files == {"standard.py", "tiles.py"}
    into = {name: sum(one.into for place, one in lines.items() if place[0] == name) for name in files}
    assert into == {"standard.py": 4 * 4 * 2 * TILE, "tiles.py": 4 * 4 * TILE}
    assert found.why_not == ()


def test_text() -> None:
    assert str(SharedBytes(2_000, 3_000_000)) == "in 2 kB, out 3 MB"
    assert str(SharedBytes()) == ""
