"""Gather what the page of a store or a study shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ioaware.cases import CASES
from ioaware.cli.reports.target_report import stored
from ioaware.prediction import predict
from ioaware.report.attention.recorded_bytes import shipped
from ioaware.report.pages.document import Document
from ioaware.report.pages.stores.store_page import store_page
from ioaware.result import Result
from ioaware.simulation.accuracy import point_key
from ioaware.sweep.points import Point
from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study
from ioaware.targets.target import load_target


def document_of(store: Path | None, study: str | None) -> Document:
    """Return the page of a store's results or of a study.

    It is of the points of a study in the store, or of a study by what is known without a store.

    Raises `UsageError` for a study or a store that does not exist, `DataError` for a damaged store.
    """
    options = (("--store", store), ("--study", study))
    command = shlex.join(["ioaware", "report", *(word for flag, value in options if value for word in (flag, str(value)))])
    if study is None:
        assert store is not None  # noqa: S101 - one of the two is given
        return store_page(store.name, _with_predictions(stored(store)), command)
    found = find_study(study)
    if store is None:
        results = list(_known(found.points))
    else:
        with Store(store, readonly=True) as opened:
            results = opened.results(found.points)
    have = {_key(result) for result in results}
    left = sum(_key(point) not in have for point in found.points)
    fill = f"ioaware sweep {study} --store FILE measures them."
    missing = [f"{left:,} of {len(found.points):,} points of the study have no result here. {fill}"] if left else []
    return store_page(found.title, _with_predictions(results), command, missing)


def _known(points: Sequence[Point]) -> Iterator[Result]:
    """Yield the predictions of a study's points, and recorded results.

    The recorded results ship with ioaware, some with every parameter of their target; a point may leave defaults out.
    """
    records = shipped()
    known = {
        (one.source, point_key(one.target, one.params)): one
        for one in (*records.steady, *records.third_party, *records.others, *records.systems, *records.own)
    }
    targets = {name: load_target(name) for name in {point.target for point in points} - CASES.keys()}
    for point in points:
        whole = targets[point.target].resolve(point.params) if point.target in targets else point.params
        if point.source == "predict" and point.target in CASES:
            yield predict(point.target, **point.params)  # pyright: ignore[reportArgumentType]  no parameter is a machine
            continue
        for params in (point.params, whole):
            if (key := (point.source, point_key(point.target, params))) in known:
                yield replace(known[key], params=dict(point.params))
                break


def _with_predictions(results: Sequence[Result]) -> list[Result]:
    """Return the results with the missing predictions.

    A prediction is added for each point of a case that has none among them.
    """
    have = {_key(result) for result in results}
    wanted = {_key(result, "predict"): result for result in results if result.target in CASES}
    predicted = [predict(one.target, **one.params) for key, one in wanted.items() if key not in have]  # pyright: ignore[reportArgumentType]
    return [*results, *predicted]


def _key(one: Point | Result, source: str = "") -> tuple[object, ...]:
    """Return what identifies a point and its result.

    It is so whatever the file of the target is now.
    """
    known = sorted((name, str(value)) for name, value in one.params.items() if value is not None)
    return source or one.source, one.target, *known
