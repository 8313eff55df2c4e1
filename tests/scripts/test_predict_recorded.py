"""Predictions of recorded points in many processes, resumed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ioaware.machine import Machine
from ioaware.result import Result
from ioaware.simulation.accuracy import Prediction
from ioaware.simulation.predictions import measured_points
from scripts import predict_recorded
from scripts.predict_recorded import Record, first_groups, key_of, run


def fake(measured: Result, machine: Machine) -> Prediction:
    """Stand in for a simulation: one point ends its process, one takes for ever."""
    if measured.params["n"] == 2:
        os._exit(3)
    if measured.params["n"] == 3:
        os.read(os.pipe()[0], 1)
    return Prediction(measured.target, measured.params)


def point(n: int, steady: bool = False) -> Result:
    return Result("measure", "case", {"n": n}, telemetry={"steady_state": {}} if steady else None)


def test_every_point_is_tried_and_none_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_recorded, "predict_point", fake)
    monkeypatch.setattr(predict_recorded, "predict_call", fake)
    points = [point(1), point(1), point(2), point(3), point(1, steady=True)]
    record = Record(tmp_path)
    chosen = record.missing(points)
    assert len(chosen) == 4
    assert run(chosen, record, processes=3, limit_s=2.0, stop_after_s=60.0) == 0
    single, steady = (Record(tmp_path).found[which] for which in (False, True))
    assert {one.params["n"]: one.failed for one in single} == {
        1: "",
        2: "its process ended with 3",
        3: "no prediction after 2 s",
    }
    assert [one.params["n"] for one in steady] == [1]
    assert Record(tmp_path).missing([*points, point(4)]) == [point(4)]
    assert (tmp_path / predict_recorded.COST).read_text().count("\n") == 4


def test_points_beyond_the_time_are_left(tmp_path: Path) -> None:
    assert run([point(1), point(2)], Record(tmp_path), processes=1, limit_s=1.0, stop_after_s=0.0) == 2


def test_points_that_run_when_the_time_is_over_are_stopped_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_recorded, "predict_point", fake)
    record = Record(tmp_path)
    assert run([point(3), point(4)], record, processes=1, limit_s=60.0, stop_after_s=1.0) == 2
    assert len(record.missing([point(3), point(4)])) == 2


def test_outliers_come_first_then_held_out_points(tmp_path: Path) -> None:
    points = [point(n) for n in range(8)]
    groups = [{key_of(points[5])}, {key_of(points[2]), key_of(points[5]), key_of(points[7])}]
    order = [one.params["n"] for one in Record(tmp_path).missing(points, groups)]
    assert order[0] == 5
    assert set(order[1:3]) == {2, 7}
    assert set(order[3:]) == {0, 1, 3, 4, 6}


def test_the_groups_are_those_of_the_record() -> None:
    points = measured_points()
    outliers, held_out = first_groups(points)
    assert outliers & held_out
    assert outliers - held_out
    assert outliers | held_out < {key_of(one) for one in points}
