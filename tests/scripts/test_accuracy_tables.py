"""The tables of the accuracy page are those of the records."""

from __future__ import annotations

import statistics

import pytest

from ioaware.simulation.accuracy import OUTLIER, Accuracy, Comparison, point_key
from ioaware.simulation.accuracy_record.recorded_accuracy import recorded_accuracy
from ioaware.simulation.predictions import measured_points
from ioaware.sweep.study import find_study
from scripts.accuracy_tables import PAGE, again_table, main, outlier_table, tables


def test_rows_and_causes_of_a_small_record() -> None:
    fine = Comparison("flash2", "flash2 batch=1 seq_len=1", "k", "HBM reads", 100_000_000, 100_000_000, inside=True)
    off = Comparison("flash2", "flash2 batch=1 seq_len=2", "k", "HBM reads", 60_000_000, 100_000_000, False, "a cause", True)
    found = tables(Accuracy((fine, off), ()))
    assert "2 points of 1 kernel families are compared, 1 of them held out." in found["counts"]
    assert "| held out | HBM reads | 1 | 40 | 40 | 40 | 1, 5, 10 | 0 of 1 |" in found["summary"]
    assert "| a cause |  |  |  | 1 |  |  |" in found["causes"]


@pytest.mark.slow
def test_the_page_quotes_the_held_out_reads_of_other_libraries() -> None:
    study = find_study("scripts/foreign/h200-wide.toml")
    points = {point_key(point.target, point.params) for point in study.points}
    reads = [
        one
        for one in recorded_accuracy(measured_points()).comparisons
        if one.point in points and one.held_out and one.place == "HBM reads"
    ]
    errors = [one.error for one in reads if one.error is not None]
    off = [one.explanation for one in reads if (one.error or 0) > OUTLIER["HBM reads"]]
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{len(errors)} held-out launches read more than 1 MB from HBM" in text
    assert f"Half of the predictions are within {100 * statistics.median(errors):.3f} % of the counter" in text
    spilled = sum("spills" in one for one in off)
    assert f"{len(off)} are more than 5 % off, {spilled} of these where the kernel spills registers." in text
    assert off.count("not explained") == 1


@pytest.mark.slow
def test_the_page_has_the_tables_of_the_records() -> None:
    assert main(["--check"]) == 0


def test_first_and_new_predictions_of_a_counter_stand_side_by_side() -> None:
    fine = Comparison("flash2", "flash2 seq_len=1", "k", "HBM reads", 100_000_000, 100_000_000, inside=True)
    off = Comparison("flash2", "flash2 seq_len=1", "k", "HBM reads", 60_000_000, 100_000_000, False, "a cause", True)
    new = Comparison("flash2", "flash2 seq_len=2", "k", "HBM reads", 50_000_000, 100_000_000, False, "another")
    first, again = Accuracy((off,), ()), Accuracy((fine, new), ())
    errors = again_table(first, again)
    assert (
        "| HBM reads | first, of both | 1 | 40 | 40 | 40 | 0 of 1 |\n| HBM reads | again, of both | 1 | 0 | 0 | 0 | 1 of 1 |"
        in errors
    )
    assert "| HBM reads | again, all | 2 | 25 | 48 | 50 | 1 of 2 |" in errors
    outliers = outlier_table(first, again)
    assert "| `flash2 seq_len=1` | `k` | reads | 60.0 | 100.0 | 100.0 | yes | within 5 % again |" in outliers
    assert "| `flash2 seq_len=2` | `k` | reads |  | 50.0 | 100.0 |  | another |" in outliers
