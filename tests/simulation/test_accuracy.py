"""Accuracy of predictions against counters: errors, ranges, explanations, files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ioaware.calibration.fit import PROFILER_DIRTY_BYTES
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import DataError
from ioaware.result import Launch, Result, Traffic
from ioaware.result_file import read_jsonl
from ioaware.simulation.accuracy import PredictedLaunch, Prediction, kernel_family, point_key
from ioaware.simulation.accuracy_record.counter_comparison import compare
from ioaware.simulation.predictions import (
    SYSTEMS,
    committed_before,
    held_out_points,
    measured_points,
    read_predictions,
    write_predictions,
)

MB = 1_000_000
PARTLY_HIT = "part of what is read again hits in the L2: replacement and drift of the programs decide how much"


def measurement(read: int, write: int = 40 * MB, requested: int = 500 * MB, requested_write: int = 40 * MB) -> Result:
    traffic, hbm = Traffic(requested, requested_write), Traffic(read, write)
    return Result("measure", "flash2", {"seq_len": 1}, hbm=hbm, launches=(Launch("k", requested=traffic, hbm=hbm),))


def prediction(read: int, low: int = 0, high: int | None = None, *, fills: bool = False, write: int = 40 * MB) -> Prediction:
    launch = PredictedLaunch("k", 500 * MB, 40 * MB, read, write, (low, high), (0, None), fills)
    return Prediction("flash2", {"seq_len": 1}, (launch,))


def test_errors_by_family_and_place() -> None:
    found = compare([measurement(100 * MB)], [prediction(90 * MB, 0, 95 * MB)])
    rows = {(row.family, row.place): row for row in found.rows}
    assert rows["flash2", "HBM reads"].worst == pytest.approx(0.1)
    assert rows["all", "HBM reads"].count == 1
    assert rows["flash2", "HBM reads"].inside == 0
    assert rows["flash2", "requested reads, L1 reuse"].worst == 0
    assert [(one.place, one.explanation) for one in found.outliers] == [("HBM reads", PARTLY_HIT)]


def test_an_error_within_the_range_is_explained_by_it() -> None:
    (outlier,) = compare([measurement(100 * MB)], [prediction(90 * MB, 80 * MB, 120 * MB)]).outliers
    assert outlier.inside
    assert "inside the predicted range" in outlier.explanation


@pytest.mark.parametrize(("most", "inside"), [(None, False), (70 * MB, False), (80 * MB, True)])
def test_requested_writes_have_a_range_where_instructions_share_sectors(most: int | None, inside: bool) -> None:
    predicted = prediction(100 * MB, 0, 100 * MB)
    launch = replace(predicted.launches[0], most_requested_write_bytes=most)
    found = compare([measurement(100 * MB, requested_write=80 * MB)], [replace(predicted, launches=(launch,))])
    (one,) = (one for one in found.outliers if one.place == "requested writes")
    assert one.inside is inside
    assert "partial-sector stores" in one.explanation
    assert ("inside the predicted range" in one.explanation) is inside


def test_known_causes() -> None:
    (partial,) = compare([measurement(100 * MB, requested_write=80 * MB)], [prediction(80 * MB, 80 * MB, 81 * MB)]).outliers[1:]
    assert "partial-sector stores" in partial.explanation
    (l1,) = compare([measurement(90 * MB, requested=400 * MB)], [prediction(90 * MB, 0, 90 * MB)]).outliers
    assert l1.explanation == "the L1 serves part of the requests"


@pytest.mark.parametrize(
    ("served", "cause"), [(None, "more sectors than tiles"), (10 * MB, "more sectors"), (200 * MB, "the L1 serves less")]
)
def test_more_requests_than_predicted_are_the_l1s_where_it_was_to_serve_as_many(served: int | None, cause: str) -> None:
    predicted = prediction(90 * MB, 0, 90 * MB)
    launch = replace(predicted.launches[0], requested_read_bytes=500 * MB, l1_served_bytes=served)
    (one,) = compare([measurement(90 * MB, requested=600 * MB)], [replace(predicted, launches=(launch,))]).outliers
    assert one.explanation.startswith(cause)


@pytest.mark.parametrize(("most", "cause"), [(None, "leave them out"), (100 * MB, "times that are not known")])
def test_spills_are_a_cause_of_first_and_of_later_predictions(most: int | None, cause: str) -> None:
    counted, predicted = measurement(100 * MB), prediction(80 * MB, 0, 80 * MB)
    spilling = replace(counted, launches=tuple(replace(one, local_bytes=64) for one in counted.launches))
    launch = replace(predicted.launches[0], most_requested_write_bytes=most)
    (one,) = (
        each for each in compare([spilling], [replace(predicted, launches=(launch,))]).outliers if each.place == "HBM reads"
    )
    assert "register spills" in one.explanation
    assert cause in one.explanation


def test_an_error_of_more_than_a_factor_of_two_is_not_explained_by_replacement() -> None:
    (outlier,) = compare([measurement(100 * MB)], [prediction(49 * MB, 0, 50 * MB)]).outliers
    assert outlier.explanation == "not explained"
    (outlier,) = compare([measurement(500 * MB)], [prediction(450 * MB, 0, 460 * MB)]).outliers  # nothing hits
    assert outlier.explanation == "not explained"


def test_small_counters_are_compared_in_bytes_alone() -> None:
    found = compare([measurement(500_000)], [prediction(900_000)])
    row = next(row for row in found.rows if row.place == "HBM reads")
    assert (row.count, row.small, row.worst_small_bytes) == (0, 1, 400_000)


def test_dirty_lines_of_the_profiler_count_where_the_l2_is_filled() -> None:
    found = compare([measurement(90 * MB, 40 * MB + PROFILER_DIRTY_BYTES)], [prediction(90 * MB, fills=True)])
    assert next(row for row in found.rows if row.place == "HBM writes").worst == 0


def test_points_without_prediction_have_a_reason() -> None:
    other = Prediction("flash2", {"seq_len": 1}, (PredictedLaunch("renamed", 1, 1, 1, 1, (0, 1), (0, 1), False),))
    for given, reason in (
        ([], "no prediction"),
        ([other], "the kernels changed"),
        ([Prediction("flash2", {"seq_len": 1}, failed="no checkout")], "no checkout"),
    ):
        found = compare([measurement(90 * MB)], given)
        assert not found.comparisons
        assert reason in found.unpredicted[0][1]


def test_families() -> None:
    assert kernel_family("scripts/foreign/liger.py:rms_norm") == "third-party: liger"
    assert kernel_family("ioaware.kernels.attention.targets:hopper") == "hopper"
    assert kernel_family("flash2") == "flash2"


def test_predictions_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    one = prediction(5, 1, None)
    write_predictions([one], path)
    assert read_predictions(path) == [one]
    assert read_predictions(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"schema":1', '"schema":9'),
        ('"schema":1', '"schema":true'),
        ('"target":', '"colour":"red","target":'),
        ('"target":', '"target":"other","target":'),
        ('"hbm_read_bytes":5', '"hbm_read_bytes":-5'),
        ('"hbm_read_bytes":5', '"hbm_read_bytes":1' + "0" * 400),
        ('"hbm_read_bytes":5', '"hbm_read_bytes":' + "[" * 3000 + "]" * 3000),
    ],
    ids=lambda text: text[:24],
)
def test_a_forged_prediction_is_refused_with_its_line(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    write_predictions([prediction(5, 1, None)], path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(DataError, match=r"p.jsonl:1: not a prediction"):
        read_predictions(path)


def test_every_recorded_point_has_hbm_bytes() -> None:
    assert len(measured_points()) >= 250


def test_the_record_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The medians of the recorded predictions are those in the documentation."""
    assert run(["accuracy", "--json"], Settings()) == 0
    data = json.loads(capsys.readouterr().out)
    rows = {(row["family"], row["place"]): row for row in data["rows"]}
    reads = rows["all", "HBM reads"]
    assert reads["count"] >= 250
    assert reads["median"] < 0.005
    assert run(["accuracy", "--only", "flash2"], Settings()) == 0
    text = capsys.readouterr().out
    assert "HBM reads" in text
    assert "third-party" not in text


def test_a_file_of_predictions_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["accuracy", "--predictions", str(tmp_path / "none.jsonl")], Settings()) == 2
    assert "there is no file" in capsys.readouterr().err


def test_held_out_points_have_their_own_rows() -> None:
    """They count in their family and in all, too."""
    later = replace(measurement(100 * MB), params={"seq_len": 2})
    predictions = [prediction(90 * MB), replace(prediction(80 * MB), params={"seq_len": 2})]
    found = compare([measurement(100 * MB), later], predictions, held_out={"flash2 seq_len=2"})
    rows = {row.family: row for row in found.rows if row.place == "HBM reads"}
    assert list(rows) == ["flash2", "all", "held out"]
    assert (rows["all"].count, rows["held out"].count) == (2, 1)
    assert rows["held out"].worst == pytest.approx(0.2)


def test_held_out_points_are_among_the_measured_ones() -> None:
    systems = {point_key(one.target, one.params) for one in read_jsonl(SYSTEMS)}
    assert len(systems) > 60
    assert systems <= {point_key(one.target, one.params) for one in measured_points()}
    assert systems <= held_out_points()


def test_predictions_committed_before_are_of_held_out_points(tmp_path: Path) -> None:
    for name, size in (("predictions", 1), ("steady", 2), ("later", 3)):
        write_predictions([replace(prediction(5), params={"seq_len": size})], tmp_path / f"{name}.jsonl")
    before = committed_before(tmp_path / "predictions.jsonl", steady=tmp_path / "steady.jsonl")
    assert [one.params for one in before] == [{"seq_len": 3}]


@pytest.mark.slow
def test_a_study_is_predicted_before_it_is_measured(tmp_path: Path) -> None:
    study, path = tmp_path / "s.toml", tmp_path / "p.jsonl"
    params = 'params = { rows = 64, cols = 128, dtype = "float16" }'
    study.write_text(f'title = "t"\n[[grid]]\nsources = ["measure"]\ntargets = ["softmax_one_read"]\n{params}\n')
    arguments = ["accuracy", "--predict", "--study", str(study)]
    assert run([*arguments], Settings()) == 2
    assert run([*arguments, "--predictions", str(path), "--steady"], Settings()) == 0
    (found,) = read_predictions(path)
    assert found.target == "softmax_one_read"
    (call,) = found.launches
    assert (call.kernel, call.hbm_write_bytes) == ("one call", 64 * 128 * 2)
