"""`ioaware accuracy`: predictions of HBM bytes against every recorded counter."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import json_option, output_option, verb, writable
from ioaware.cli.output import emit, progress
from ioaware.errors import UsageError
from ioaware.strict_json import is_there


@verb
@click.option("--predict", "missing", is_flag=True, help="Simulate the points that have no prediction, some seconds each.")
@click.option("--predictions", type=click.Path(path_type=Path), help="Predictions to compare or write.  [default: recorded]")
@click.option("--study", help="With --predict: points of a study, not measured yet. --predictions names the file.")
@click.option("--steady", is_flag=True, help="With --study: calls in steady state, not single launches.")
@click.option("--only", metavar="TEXT", default="", help="Points of targets with this in their name.")
@click.option("--again", is_flag=True, help="Predictions that a later model made after measuring. None is held out.")
@click.option("--html", type=click.Path(path_type=Path), callback=writable, help="Write predicted against counted as a page.")
@json_option
@output_option("Write here instead of to stdout.")
def accuracy(
    missing: bool,
    predictions: Path | None,
    study: str | None,
    steady: bool,
    only: str,
    again: bool,
    html: Path | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """Compare predicted bytes with the counters of an H200.

    They are compared by kernel family and place, and every outlier is explained.

    Compares the recorded predictions of `simulate` with the recorded measurements. --predict makes the missing ones; after an
    interruption the same command continues. Third-party targets need the checkouts that FOREIGN_... variables name.
    Predictions stay as they were first made; the last rows are of predictions by a later model.
    Example: ioaware accuracy --only flash2
    """
    from ioaware.cli.tables.simulation_tables import accuracy_text
    from ioaware.machine import find_machine_or_file
    from ioaware.result import Result
    from ioaware.simulation import predictions as files
    from ioaware.simulation.accuracy import point_key
    from ioaware.simulation.accuracy_record.counter_comparison import compare
    from ioaware.simulation.accuracy_record.l1_reuse import L1_ANSWERS, answer_missing, read_l1_answers
    from ioaware.simulation.accuracy_record.recorded_accuracy import predicted_again, recorded_accuracy
    from ioaware.simulation.accuracy_record.repeated_counts import read_repeated
    from ioaware.simulation.accuracy_record.steady_state import is_steady, predict_call

    if again and (missing or predictions is not None):
        raise UsageError("--again compares recorded predictions", "Leave out --predict and --predictions.")

    if study or steady:
        from ioaware.sweep.study import find_study

        if study is None or predictions is None or not missing:
            raise UsageError("--study predicts points before they are measured", "Add --predict and --predictions FILE.")
        asked = [Result("measure", one.target, one.params) for one in find_study(study).points if one.source == "measure"]
        predict = predict_call if steady else files.predict_point
        files.predict_missing(asked, find_machine_or_file("H200"), predictions, progress, predict)
        return
    if predictions is not None and not missing and not is_there(predictions):
        raise UsageError(f"there is no file {predictions}", "Make it: ioaware accuracy --predict --predictions FILE.")
    path = predictions or files.PREDICTIONS
    points = [one for one in files.measured_points() if only in one.target]
    if missing:
        before = [] if predictions else files.committed_before()
        known = {point_key(one.target, one.params) for one in before}
        single = [one for one in points if not is_steady(one) and point_key(one.target, one.params) not in known]
        files.predict_missing(single, find_machine_or_file("H200"), path, progress)
        if predictions is None:
            answer_missing(points, find_machine_or_file("H200"), L1_ANSWERS, progress)
    if predictions is not None:
        steady_calls = files.read_predictions(files.STEADY)
        found = files.read_predictions(predictions)
        result = compare(points, found, files.held_out_points(), steady_calls, read_l1_answers(), read_repeated())
    else:
        result = predicted_again(points) if again else recorded_accuracy(points)
    if html is not None:
        from ioaware.report.pages.accuracy_page import accuracy_page
        from ioaware.report.pages.document import write_page

        write_page(accuracy_page(result), html)
    emit(result.to_dict, lambda: accuracy_text(result), as_json=as_json, output=output)


command = accuracy
