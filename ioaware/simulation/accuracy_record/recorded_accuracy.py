"""Compare the recorded predictions with the recorded counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ioaware.result import Result
from ioaware.simulation import predictions as files
from ioaware.simulation.accuracy import Accuracy
from ioaware.simulation.accuracy_record.counter_comparison import compare
from ioaware.simulation.accuracy_record.l1_reuse import read_l1_answers
from ioaware.simulation.accuracy_record.repeated_counts import read_repeated

MADE_AGAIN = "made again by a later model, after measuring: none held out"


def recorded_accuracy(points: Sequence[Result]) -> Accuracy:
    """Compare points with their predictions, and with those of a later model.

    The first are those that were fixed first: before measuring, for what is held out.
    """
    found = [*files.read_predictions(), *files.committed_before()]
    steady = files.read_predictions(files.STEADY)
    first = compare(points, found, files.held_out_points(), steady, read_l1_answers(), read_repeated())
    return replace(first, again=predicted_again(points).comparisons)


def predicted_again(points: Sequence[Result]) -> Accuracy:
    """Compare points with the predictions of a later model, none held out.

    They were made by `scripts/predict_recorded.py` after the points were measured.
    """
    single, steady = (files.read_predictions(files.AGAIN / name) for name in ("predictions.jsonl", "steady.jsonl"))
    found = compare(points, single, (), steady, read_l1_answers(), read_repeated())
    comparisons = tuple(replace(one, held_out=False) for one in found.comparisons)
    return replace(found, comparisons=comparisons, made=MADE_AGAIN)
