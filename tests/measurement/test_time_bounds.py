"""Least times beside measured ones: of calls, launches, old records and new ones."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ioaware.machine.presets import PRESETS
from ioaware.measurement.time_bounds import bound_of, launch_bound, with_bounds, with_flops, with_known_flops
from ioaware.result import Launch, Result, Traffic
from ioaware.result_file import decode, encode, read_jsonl
from ioaware.simulation.predictions import RECORDED, measured_points
from ioaware.sweep.export import export

H200 = {"gpu": "NVIDIA H200", "sm_count": 132}
MOVED = Traffic(10_000_000, 0)
L2_NS = 1e9 * 10_000_000 / (PRESETS["H200"].level("l2").bandwidth_bytes_per_s or math.nan)
LAUNCH = Launch("k", requested=MOVED, hbm=Traffic(1_000_000, 0), time_ns=5_000.0)
MEASURED = Result(
    "measure", "file.py:f", requested=MOVED, hbm=Traffic(1_000_000, 0), time_ns=4_000.0, launches=(LAUNCH,), environment=H200
)


def test_the_level_that_binds_a_call_and_a_launch() -> None:
    found = with_bounds(MEASURED)
    assert found.time_bound is not None
    assert (found.time_bound["binds"], found.time_bound["time_ns"]) == ("L2", pytest.approx(L2_NS))
    assert found.launches[0].time_bound == launch_bound(MEASURED, LAUNCH).to_dict()  # pyright: ignore[reportOptionalMemberAccess]


def test_flops_of_a_case_come_from_its_closed_form() -> None:
    params = {"seq_len": 4096, "heads": 1, "head_dim": 64}
    bound = bound_of(replace(MEASURED, target="flash2", params=params))
    assert bound is not None
    assert bound.arithmetic_ns == pytest.approx(4 * 4096**2 * 64 / 989e12 * 1e9, rel=0.2)
    assert bound_of(MEASURED).arithmetic_ns is None  # pyright: ignore[reportOptionalMemberAccess]


def test_kernels_of_torch_count_in_the_bound_of_a_call() -> None:
    both = bound_of(replace(MEASURED, assumed=MOVED, launches=(LAUNCH, replace(LAUNCH, origin="torch"))))
    assert both is not None
    assert both.l2_ns == pytest.approx(2 * L2_NS)


@pytest.mark.parametrize(
    "other", [{"environment": {"gpu": "Other", "sm_count": 1}}, {"environment": None}, {"source": "derive"}, {"time_ns": None}]
)
def test_nothing_is_bounded_without_a_gpu_or_a_time(other: dict[str, object]) -> None:
    assert with_bounds(replace(MEASURED, **other)).time_bound is None  # pyright: ignore[reportArgumentType]


def test_records_keep_their_bound(tmp_path: Path) -> None:
    """New records carry it; exported old ones get it, and the file stays as it is."""
    kept = replace(MEASURED, time_bound={"time_ns": 1.0, "binds": "HBM"})
    assert with_bounds(kept).time_bound == kept.time_bound
    assert decode(encode(with_bounds(MEASURED))) == with_bounds(MEASURED)
    export([MEASURED], tmp_path / "out.csv")
    header, row = (tmp_path / "out.csv").read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["time_bound.binds"] == "L2"


def test_no_recorded_call_or_launch_is_faster_than_its_bound() -> None:
    found = [with_bounds(point) for point in measured_points()]
    each = [(one.time_bound, one.time_ns) for point in found for one in (point, *point.launches) if one.time_bound]
    assert len(each) > 1000
    assert all(float(bound["time_ns"]) <= time for bound, time in each if time)


DERIVED = Result(
    "derive", "file.py:f", flops=1979 * 10**9, launches=(Launch("k", flops=1979 * 10**9, matmul_types=("f8E4M3FN",)),)
)


def test_flops_of_a_derivation_count_at_the_peak_of_their_operands() -> None:
    found, _ = (with_bounds(one) for one in with_known_flops([MEASURED, DERIVED]))
    assert (found.flops, found.launches[0].flops) == (1979 * 10**9, 1979 * 10**9)
    assert found.time_bound is not None
    assert (found.time_bound["binds"], found.time_bound["arithmetic_ns"]) == ("arithmetic", pytest.approx(1e6))
    assert found.launches[0].time_bound == found.time_bound
    assert decode(encode(found)) == found


@pytest.mark.parametrize(
    "derived",
    [
        None,
        replace(DERIVED, flops=None),
        replace(DERIVED, launches=(replace(DERIVED.launches[0], configuration={"BLOCK": 64}),)),
    ],
)
def test_flops_of_nothing_or_of_another_configuration_do_not_count(derived: Result | None) -> None:
    tuned = replace(MEASURED, launches=(replace(LAUNCH, configuration={"BLOCK": 128}),))
    assert with_flops(tuned, derived) is tuned


def test_other_launches_get_no_flops_of_their_own() -> None:
    found = with_flops(MEASURED, replace(DERIVED, launches=(*DERIVED.launches, Launch("more"))))
    assert (found.flops, found.launches[0].flops) == (DERIVED.flops, None)


def test_the_recorded_hopper_kernels_are_bound_by_arithmetic_at_long_sequences() -> None:
    results = [one for name in ("", "-derived") for one in read_jsonl(RECORDED / f"h200-hopper{name}.jsonl")]
    found = [with_bounds(one) for one in with_known_flops(results) if one.source == "measure"]
    long = [one for one in found if one.params["seq_len"] == 16384]
    assert len(found) == 24
    assert {one.time_bound["binds"] for one in long if one.time_bound} == {"arithmetic"}
    assert all(0.2 < float(one.time_bound["time_ns"]) / one.time_ns < 1 for one in long if one.time_bound and one.time_ns)
