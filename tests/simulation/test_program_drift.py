"""Programs of an SM drift apart where instructions bound them, not memory."""

from __future__ import annotations

import json

import pytest

from ioaware.machine import find_machine_or_file
from ioaware.simulation.predictions import RECORDED
from ioaware.simulation.program_drift import MEMORY_PRIORITY, has_matmul, next_oldest_rate

H200 = find_machine_or_file("H200")


def loop(exponentials: int, width: int = 128) -> str:
    """Return the loop of the `busy` probe with so many exponentials."""
    product = f"tensor<64x{width}xf32>"
    special = "".join(f"      %e{n} = math.exp2 %d : {product} loc(#loc1)\n" for n in range(exponentials))
    return (
        f"    %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %z) -> ({product})  : i32 {{\n"
        f"      %x = tt.load %p : tensor<64x{width}x!tt.ptr<f16>> loc(#loc1)\n"
        f"      %d = tt.dot %own, %x, %z : tensor<64x64xf16> * tensor<64x{width}xf16> -> {product} loc(#loc1)\n"
        f"{special}      %s = arith.addf %t, %d : {product} loc(#loc1)\n"
        f"      scf.yield %s : {product} loc(#loc1)\n    }} loc(#loc1)\n"
    )


def test_loads_keep_programs_together() -> None:
    assert next_oldest_rate(loop(0), H200) == 1.0


@pytest.mark.parametrize(("exponentials", "least", "most"), [(1, 0.5, 0.7), (2, 0.3, 0.42)])
def test_exponentials_let_the_oldest_lead(exponentials: int, least: float, most: float) -> None:
    assert least < next_oldest_rate(loop(exponentials), H200) < most


def test_the_loop_that_waits_most_decides() -> None:
    assert next_oldest_rate(loop(2) + loop(0), H200) == 1.0


def test_without_a_matmul_the_oldest_leads() -> None:
    assert next_oldest_rate("%x = tt.load %p : tensor<64x!tt.ptr<f16>>", H200) == MEMORY_PRIORITY < 1
    for product in ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma"):
        assert has_matmul(f"    %d = {product} %a, %b : tensor<64x64xf32>")
        assert next_oldest_rate(f"    %d = {product} %a, %b : tensor<64x64xf32>", H200) == 1.0


def test_a_loop_inside_another_is_found() -> None:
    """The `busy` probe has its loop of matmuls inside the loop over marks."""
    outer = f"  scf.for %m = %c0 to %n step %c1 : i32 {{\n{loop(2)}    tt.store %q, %t : !tt.ptr<i64>\n  }} loc(#loc1)\n"
    assert next_oldest_rate(outer, H200) == next_oldest_rate(loop(2), H200) < 1


def test_unknown_rates_keep_programs_together() -> None:
    assert next_oldest_rate(loop(2), find_machine_or_file("H100")) == 1.0


@pytest.mark.parametrize("exponentials", [0, 1, 2])
def test_the_rates_are_those_of_the_probe(exponentials: int) -> None:
    """The second program of an SM against the first, until the first ends."""
    data = json.loads((RECORDED / "l2" / "h200-waves.json").read_text())
    shape = {"probe": "busy", "EXPS": exponentials, "ROWS": 64, "num_stages": 3, "steps": 2048}
    (probe,) = (one for one in data["launches"] if shape.items() <= one.items())
    first, second = [number for number, sm in enumerate(probe["sm"]) if sm == probe["sm"][0]][:2]
    ends = probe["marks"][first][-1], probe["marks"][second][-1]
    measured = (ends[0] - (ends[1] - ends[0])) / ends[0]
    assert next_oldest_rate(loop(exponentials), H200) == pytest.approx(measured, abs=0.15)
