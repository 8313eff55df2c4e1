"""Bytes of shared memory of compiled kernels, against hand counts of their tiles."""

from __future__ import annotations

from collections import Counter
from unittest.mock import Mock

import pytest
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.mlir.types import parse_type
from ioaware.analysis.ir.shared_memory import stored_bytes
from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.shared_allocation import with_scratch
from ioaware.compilation.shared_traffic import shared_traffic
from ioaware.compilation.triton_ir import compiled_ir
from ioaware.report.pages.shared_lines import SharedBytes, shared_lines
from ioaware.targets.target import load_target

FOLDS = "tests.support.targets.fold_targets"
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
            for one in shared_traffic(event, captured.values, DEFAULT_GPU).accesses:
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
    ahead = found["in", "ttg.async_copy_global_to_local"] - visited * 2 * TILE  # K and V, beside what a pipeline fetches ahead
    assert 0 <= ahead <= heads * rows * 2 * 4 * TILE


def test_tma_moves_its_tile_and_not_its_barrier() -> None:
    counted = moved(f"{FOLDS}:tma_copy", rows=256)["tma_copy_kernel"]
    tiles = 256 * 32 * 4
    assert counted["in", "ttng.async_tma_copy_global_to_local"] == tiles
    assert counted["out", "ttng.async_tma_copy_local_to_global"] == tiles


def test_a_product_of_two_tiles() -> None:
    found = moved("standard", seq_len=256)
    assert found["standard_scores"] == {
        ("in", "ttg.local_alloc"): 4 * 4 * 2 * TILE,
        ("out", "ttng.warp_group_dot"): 4 * 4 * 2 * TILE,
        ("in", "ttg.convert_layout"): 4 * 4 * 2 * TILE,  # S in float32, from the product's layout to the store's
        ("out", "ttg.convert_layout"): 4 * 4 * 2 * TILE,
    }
    assert not found["standard_softmax"]


def test_a_line_has_what_the_functions_that_it_calls_move() -> None:
    target = load_target("standard")
    found = shared_lines(capture(target, target.resolve({"seq_len": 256}), gpu=DEFAULT_GPU), DEFAULT_GPU)
    lines = found.kernels["standard_scores"]
    files = {name for name, _ in lines}
    assert files == {"standard.py", "tiles.py"}
    into = {name: sum(one.into for place, one in lines.items() if place[0] == name) for name in files}
    operands, scores = 4 * 4 * 2 * TILE, 4 * 4 * 2 * TILE
    assert into == {"standard.py": operands + scores, "tiles.py": operands // 2 + scores}
    assert found.why_not == ()


def test_a_conversion_between_registers_moves_nothing() -> None:
    """P goes from the scores' product to the output's within each thread.

    O and the log-sum-exps cross warps.
    """
    counted = moved("flash2", seq_len=1024, heads=2)["flash2_kernel"]
    programs = 2 * 1024 // 64
    assert counted["in", "ttg.convert_layout"] == counted["out", "ttg.convert_layout"] == programs * (TILE + 64 * 4)


def test_a_reduction_moves_its_partial_results_and_its_results() -> None:
    """Each of four warps stores one partial result.

    The first warp loads them and stores the result, which all load.
    """
    rows = 64
    assert moved(f"{FOLDS}:row_sums", rows=rows)["row_sums_kernel"] == {
        ("in", "tt.reduce"): rows * (4 + 1) * 4,
        ("out", "tt.reduce"): rows * (4 + 1) * 4,
    }


def test_only_an_axis_that_crosses_warps_goes_through_shared_memory() -> None:
    """Two numbers of four bytes for each of the columns: the maximum and its index."""
    counted = moved(f"{FOLDS}:both_axes", rows=64, columns=32)["both_axes_kernel"]
    assert counted["in", "tt.reduce"] == counted["out", "tt.reduce"] == (4 + 1) * 32 * (4 + 4)


def test_a_scan_a_gather_and_an_atomic_go_through_scratch() -> None:
    """A warp holds 128 numbers a round, so a scan of 1,024 has 8 partial results."""
    counted = moved(f"{FOLDS}:scratch", n=1024)["scratch_kernel"]
    assert counted["in", "tt.scan"] == counted["out", "tt.scan"] == 8 * 4
    assert counted["in", "tt.gather"] == counted["out", "tt.gather"] == 1024 * 4
    assert counted["in", "tt.atomic_rmw"] == counted["out", "tt.atomic_rmw"] == 4


def test_what_has_no_rule_is_named() -> None:
    target = load_target(f"{FOLDS}:scratch")
    found = shared_lines(capture(target, target.resolve({}), gpu=DEFAULT_GPU), DEFAULT_GPU)
    assert found.why_not == ("shared memory of scratch_kernel is counted without tt.histogram",)


def test_pointers_take_eight_bytes() -> None:
    assert stored_bytes(parse_type("tensor<64x!tt.ptr<f16>, #blocked>")) == 8
    assert stored_bytes(parse_type("tensor<64xi1, #blocked>")) == 1


def test_conversions_that_cannot_be_placed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not placed on AMD.

    Nor are they where the pass and the machine code differ in their shared memory.
    """
    target = load_target("standard")
    captured = capture(target, target.resolve({"seq_len": 256}), gpu=DEFAULT_GPU)
    (launch, *_) = (event for event in captured.events if isinstance(event, CapturedLaunch))
    text = compiled_ir(launch, captured.values, DEFAULT_GPU).text
    assert with_scratch(text, DEFAULT_GPU, 16384) is not None
    assert with_scratch(text, DEFAULT_GPU, 16385) is None
    assert with_scratch(text, GPUTarget("hip", "gfx942", 64), 16384) is None
    monkeypatch.setattr("ioaware.compilation.shared_traffic.with_scratch", Mock(return_value=None))
    found = shared_lines(captured, DEFAULT_GPU)
    assert "standard_scores" in found.kernels
    assert found.why_not == (
        "shared memory of standard_scores is counted without ttg.convert_layout",
        "shared memory of standard_softmax is counted without tt.reduce",
        "shared memory of standard_output is counted without ttg.convert_layout",
    )


def test_text() -> None:
    assert str(SharedBytes(2_000, 3_000_000)).replace("\N{NO-BREAK SPACE}", " ") == "in 2.000 kB, out 3.000 MB"
    assert str(SharedBytes()) == ""
