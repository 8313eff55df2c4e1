"""Programs of an SM drift apart where instructions bound them, not memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ioaware.machine import find_machine_or_file
from ioaware.simulation.predictions import RECORDED
from ioaware.simulation.program_drift import MEMORY_PRIORITY, by_priority, has_matmul, rates_by_age

H200 = find_machine_or_file("H200")


def loop(exponentials: int, width: int = 128, sums: int = 0) -> str:
    """Return the loop of the `busy` probe with so many exponentials."""
    product = f"tensor<64x{width}xf32>"
    special = "".join(f"      %e{n} = math.exp2 %d : {product} loc(#loc1)\n" for n in range(exponentials))
    added = "".join(f"      %a{n} = arith.mulf %d, %d : {product} loc(#loc1)\n" for n in range(sums))
    return (
        f"    %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %z) -> ({product})  : i32 {{\n"
        f"      %x = tt.load %p : tensor<64x{width}x!tt.ptr<f16>> loc(#loc1)\n"
        f"      %d = tt.dot %own, %x, %z : tensor<64x64xf16> * tensor<64x{width}xf16> -> {product} loc(#loc1)\n"
        f"{special}{added}      %s = arith.addf %t, %d : {product} loc(#loc1)\n"
        f"      scf.yield %s : {product} loc(#loc1)\n    }} loc(#loc1)\n"
    )


def probe_loop(one: dict[str, Any]) -> str:
    """Return the loop of a kernel of the `priority` probe, in Triton IR."""
    rows, cols, width = one["ROWS"], one["COLS"], one["WIDTH"]
    product, tile = f"tensor<{rows}x{width}xf32>", f"tensor<{cols}x{width}x!tt.ptr<f16>>"
    lines = [f"%x = tt.load %p : {tile}"]
    lines += [f"%d = tt.dot %a, %x, %z : tensor<{rows}x{cols}xf16> * tensor<{cols}x{width}xf16> -> {product}"]
    for _ in range(one["REDUCTIONS"]):
        lines += [f"}}) : ({product}) -> tensor<{rows}xf32>", f"%s = arith.subf %d, %m : {product}"]
    lines += [f"%e = math.exp2 %d : {product}"] * one["EXPS"]
    lines += [f"%v = arith.mulf %d, %h : {product}", f"%v = arith.maxnumf %d, %h : {product}"] * one["SUMS"]
    if one["DOTS"] == 2:
        lines += [f"%y = tt.load %q : {tile}"]
        factors = f"tensor<{rows}x{width}xf16> * tensor<{width}x{cols}xf16>"
        lines += [f"%d = tt.dot %a, %y, %z : {factors} -> tensor<{rows}x{cols}xf32>"]
    else:
        lines += [f"%t = arith.addf %t, %d : {product}"]
    inside = "".join(f"      {line}\n" for line in lines)
    return f"    %r = scf.for %i = %c0 to %n step %c1 : i32 {{\n{inside}      scf.yield %t : {product}\n    }} loc(#loc1)\n"


def test_loads_keep_programs_together() -> None:
    assert rates_by_age(loop(0), H200, 3, 4) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("exponentials", "least", "most"), [(1, 0.55, 0.7), (2, 0.33, 0.45)])
def test_exponentials_let_the_oldest_lead(exponentials: int, least: float, most: float) -> None:
    assert least < rates_by_age(loop(exponentials), H200, 3, 4)[1] < most


def test_the_loop_that_waits_least_decides() -> None:
    assert rates_by_age(loop(2) + loop(0), H200, 3, 4) == (1.0, 1.0, 1.0)


def test_two_programs_with_other_arithmetic_stay_together() -> None:
    two, three = (rates_by_age(loop(0, sums=20), H200, count, 4) for count in (2, 3))
    assert two == (1.0, 1.0)
    assert three[2] < three[1] < 1


def test_wide_programs_drift_more() -> None:
    assert rates_by_age(loop(0, sums=20), H200, 2, 8)[1] < 0.85


def test_without_a_matmul_the_oldest_leads() -> None:
    assert rates_by_age("%x = tt.load %p : tensor<64x!tt.ptr<f16>>", H200, 2, 4) == (1, MEMORY_PRIORITY)
    for product in ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma"):
        assert has_matmul(f"    %d = {product} %a, %b : tensor<64x64xf32>")
        assert rates_by_age(f"    %d = {product} %a, %b : tensor<64x64xf32>", H200, 2, 4) == (1.0, 1.0)


def test_a_loop_inside_another_is_found() -> None:
    """The `busy` probe has its loop of matmuls inside the loop over marks."""
    outer = f"  scf.for %m = %c0 to %n step %c1 : i32 {{\n{loop(2)}    tt.store %q, %t : !tt.ptr<i64>\n  }} loc(#loc1)\n"
    assert rates_by_age(outer, H200, 2, 4) == rates_by_age(loop(2), H200, 2, 4) != (1.0, 1.0)


def test_unknown_rates_keep_programs_together() -> None:
    assert rates_by_age(loop(2), replace(H200, peaks={}), 2, 4) == (1.0, 1.0)


@pytest.mark.parametrize("exponentials", [0, 1, 2])
def test_the_rates_are_those_of_the_busy_probe(exponentials: int) -> None:
    """The second program of an SM against the first, until the first ends."""
    data = json.loads((RECORDED / "l2" / "h200-waves.json").read_text())
    shape = {"probe": "busy", "EXPS": exponentials, "ROWS": 64, "num_stages": 3, "steps": 2048}
    (probe,) = (one for one in data["launches"] if shape.items() <= one.items())
    first, second = [number for number, sm in enumerate(probe["sm"]) if sm == probe["sm"][0]][:2]
    ends = probe["marks"][first][-1], probe["marks"][second][-1]
    measured = (ends[0] - (ends[1] - ends[0])) / ends[0]
    assert rates_by_age(loop(exponentials), H200, 3, 4)[1] == pytest.approx(measured, abs=0.08)


def recorded() -> list[dict[str, Any]]:
    """Return the launches of the `priority` probe with several programs on an SM."""
    data = json.loads((RECORDED / "l2" / "h200-priority.json").read_text())
    return [one for one in data["launches"] if one["programs"] > 1]


def test_one_share_gives_the_rates_of_all_programs() -> None:
    """Most launches of the probe follow a queue with priority."""
    shares = np.linspace(0, 0.9, 181)
    off = [
        min(np.abs(np.array(by_priority(share, one["programs"])) - one["progress"]).max() for share in shares)
        for one in recorded()
    ]
    assert np.median(off) < 0.01
    assert np.quantile(off, 0.9) < 0.1


def test_rates_of_programs_bound_by_special_functions() -> None:
    """The share of special functions gives the rates, where it leads."""
    off = [
        np.abs(np.array(rates_by_age(probe_loop(one), H200, one["programs"], one["num_warps"])) - one["progress"]).max()
        for one in recorded()
        if one["EXPS"] == 2 and one["ROWS"] >= 64
    ]
    assert len(off) > 15
    assert np.mean(off) < 0.12


def test_rates_where_instructions_bind() -> None:
    """In half of the launches no rate is more than 0.12 off."""
    off = [
        np.abs(np.array(rates) - one["progress"]).max()
        for one in recorded()
        if (rates := rates_by_age(probe_loop(one), H200, one["programs"], one["num_warps"]))[-1] < 1
    ]
    assert len(off) > 80
    assert np.median(off) < 0.12
    assert np.mean(off) < 0.16
