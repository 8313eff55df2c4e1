"""The speed figures from invented records.

The tests cover back ends, the ceiling, and decode in bytes.
"""

from __future__ import annotations

import pytest

from ioaware.bench.attention_points import Point, grid
from ioaware.bench.race_record import Entry, Record
from ioaware.report.figures.speed import speeds
from ioaware.sweep.claim_evidence import recorded_race


def record(point: Point) -> Record:
    """Return a record with ioaware at 600 TFLOP/s or 4 TB/s.

    The tutorial is at half of it.

    The ceiling is a quarter above.
    """
    amount, rate = (point.compulsory_bytes, 4e12) if point.bound_by_bytes else (point.flops, 6e14)
    time_ns = amount / rate * 1e9
    entries = (
        Entry("ioaware", "ok", "hopper: requested", "", (time_ns,) * 3, 23.0, True, 1e-3),
        Entry("tutorial", "ok", "", "", (2 * time_ns,) * 3, 50.0, True, 1e-3),
        Entry("flex", "failed", reason="no"),
    )
    return Record(point, entries, (7.5e14,) * 3, (5e12,) * 3)


RECORDS = [record(point) for point in grid(["forward", "decode"], [64, 128], [512, 4096], [8192, 65536])]


def test_a_cell_has_a_line_for_each_back_end_that_ran_and_the_ceiling() -> None:
    forward, decode = speeds(RECORDS)
    assert (forward.name, decode.name) == ("speed_forward", "speed_decode")
    assert [cell.title for cell in forward.cells] == [f"d = {d}, {mask}" for d in (64, 128) for mask in ("full", "causal")]
    series = {one.name: one for one in forward.cells[0].panels[0].series}
    ceiling = "a matmul of 8192³, between them"
    assert set(series) == {ceiling, "ioaware", "ioaware path", "Triton's tutorial", "tutorial path"}
    assert series["ioaware"].x == (512.0, 4096.0)
    assert series["ioaware"].y == (pytest.approx(600),) * 2
    assert series["tutorial path"].y == (pytest.approx(300),) * 2
    assert series["tutorial path"].label == "Triton's tutorial"
    assert series[ceiling].y == (pytest.approx(750),) * 2
    assert "2.000 of the best other" in series["ioaware"].hover[0]
    assert "80 % of the ceiling" in series["ioaware"].hover[0]
    assert forward.cells[0].panels[0].y.limits == (0.0, pytest.approx(1.06 * 750))


def test_decode_is_in_bytes_over_the_length_of_the_cache() -> None:
    _, decode = speeds(RECORDS)
    assert [cell.title for cell in decode.cells][:3] == [
        "d = 64, 1 row of 1 head",
        "d = 64, 1 row of 8 heads",
        "d = 64, 4 rows of 4 heads",
    ]
    panel = decode.cells[0].panels[0]
    assert panel.y.label == "decode (TB/s)"
    assert panel.series[1].y == (pytest.approx(4.0),) * 2
    assert panel.series[1].x == (8192.0, 65536.0)


def test_the_caption_has_the_rounds() -> None:
    assert "Median of 3 rounds, bfloat16;" in speeds(RECORDS)[0].caption


def test_no_records_give_no_figures() -> None:
    assert speeds([]) == []
    assert speeds([Record(RECORDS[0].point, (Entry("ioaware", "failed", reason="no"),))]) == []


def test_the_recorded_race_is_one_clean_run_with_right_outputs() -> None:
    race = recorded_race()
    assert race
    assert (
        len({tuple(record.environment[key] for key in ("gpu", "driver", "torch", "triton", "cudnn")) for record in race}) == 1
    )
    (commit,) = {record.environment["commit"] for record in race}
    assert "dirty" not in commit
    assert len({record.point for record in race}) == len(race)
    for one in race:
        entry = one.entry("ioaware")
        assert entry is not None
        assert entry.status == "ok"
        assert entry.graph or entry.reason.startswith("no CUDA graph")
        assert one.telemetry["sm_clock_mhz"]["median"] > 1000
        assert not one.telemetry["unstable"]
