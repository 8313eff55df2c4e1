"""The papers' tables: what is printed, counted here, and measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioaware.bench.training.training_record import TrainingEntry, TrainingPoint, TrainingRecord
from ioaware.machine import PRESETS
from ioaware.machine.time_bound import fastest_hbm
from ioaware.report.attention.fused_rows import READS, fused_rows
from ioaware.report.attention.headline_rows import (
    NOT_MEASURED,
    PRINTED,
    SHAPE,
    hbm_gbytes,
    headline_rows,
    least_time,
    milliseconds,
    training_rows,
)
from ioaware.result import Check, Result, Traffic


def record(case: str, **changes: Any) -> Result:
    given: dict[str, Any] = {"hbm": Traffic(3 * 10**9, 10**9), "time_ns": 5e6, "status": "ok", **changes}
    return Result("measure", case, dict(SHAPE), **given)


def test_forward_and_backward_are_added_and_half_a_row_is_none() -> None:
    standard = PRINTED[0]
    both = [record("standard"), record("standard_bwd")]
    assert hbm_gbytes(standard, both) == 8
    assert milliseconds(standard, both) == 10
    for half in ([record("standard")], [record("standard"), record("standard_bwd", status="failed", hbm=None, time_ns=None)]):
        assert hbm_gbytes(standard, half) is None
        assert milliseconds(standard, half) is None


def test_a_throttled_time_is_not_shown_but_its_bytes_are() -> None:
    both = [record("standard"), record("standard_bwd", status="throttled")]
    assert hbm_gbytes(PRINTED[0], both) == 8
    assert milliseconds(PRINTED[0], both) is None


def test_a_time_stands_beside_its_bound() -> None:
    """Forward and backward are bounded apart: a pass waits for the other."""
    environment = {"gpu": "NVIDIA H200", "sm_count": 132}
    both = [
        record("standard", hbm=Traffic(10**13, 0), environment=environment),
        record("standard_bwd", requested=Traffic(10**14, 0), hbm=Traffic(1, 0), environment=environment),
    ]
    machine = PRESETS["H200"]
    expected = 1e16 / (fastest_hbm(machine) or 0) + 1e17 / (machine.level("l2").bandwidth_bytes_per_s or 0)
    assert least_time(PRINTED[0], both) == (pytest.approx(expected), "HBM and L2")
    (row,) = (row for row in headline_rows(both) if (row[0]["text"], row[1]["text"]) == ("ms", "standard"))
    assert row[3]["text"].startswith("at least ")
    assert row[3]["text"].endswith("HBM and L2")
    assert least_time(PRINTED[0], both[:1]) is None


def test_records_of_another_shape_are_not_taken() -> None:
    other = Result("measure", "standard", {**SHAPE, "seq_len": 2048}, hbm=Traffic(1, 1), time_ns=1.0)
    rows = headline_rows([other])
    assert [row[4]["text"] for row in rows if row[0]["text"] == "ms"] == [NOT_MEASURED] * 4


def test_a_forward_pass_without_its_backward_pass_is_named() -> None:
    cells = [row[4]["text"] for row in headline_rows([record("standard")]) if row[1]["text"] == "standard"]
    assert cells == ["no counter", "forward alone 4", NOT_MEASURED]


def test_training_says_what_failed_and_what_is_not_measured() -> None:
    assert [row[3]["text"] for row in training_rows([])] == [NOT_MEASURED] * 2
    entries = (
        TrainingEntry("eager", "failed", "out of memory"),
        TrainingEntry("sdpa", "ok", step_ns=(4e6,) * 3, peak_bytes=10**9),
        TrainingEntry("ioaware", "ok", step_ns=(2e6,) * 3, peak_bytes=10**9, loss_error=1e-4),
    )
    rows = training_rows([TrainingRecord(TrainingPoint("speed", "small", 1024, 8), entries)])
    assert [[cell["text"] for cell in row][3:6] for row in rows] == [
        ["failed: out of memory", "", ""],
        ["2,048,000", "4", "1.000"],
        ["4,096,000", "2", "2.000"],
    ]


def test_a_program_is_shown_where_both_forms_are_measured_and_right() -> None:
    def form(name: str, reads: int, *, passed: bool = True) -> Result:
        params: dict[str, Any] = {"program": "entropy", "form": name, "rows": 2, "cols": 8}
        check = Check(1e-7 if passed else 1.0, 1e-4)
        return Result("measure", "fused", params, requested=Traffic(reads, 8), status="ok", time_ns=1e3, check=check)

    (row,) = fused_rows([form("separate", 192), form("fused", 64)])
    assert [cell["text"] for cell in row][:3] == ["entropy", *(str(one) for one in READS["entropy"])]
    assert row[5]["text"] == "66.7 %"
    assert (row[7]["text"], row[9]["text"]) == ("", "")
    h200 = {"gpu": "NVIDIA H200", "sm_count": 132}
    (row,) = fused_rows([replace(form(name, reads), environment=h200) for name, reads in (("separate", 192), ("fused", 64))])
    assert row[7]["text"].endswith(", L2")
    assert fused_rows([form("fused", 64)]) == []
    assert fused_rows([form("separate", 192), form("fused", 64, passed=False)]) == []
