"""Draw the page of a store or a study.

It shows the points of each target along its most varied parameter, and every point in a table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ioaware.display.text import clean, params_text
from ioaware.display.units import bytes_text, percent_text
from ioaware.measurement.time_bounds import with_known_flops
from ioaware.report.chart import Axis, Figure, Mark, Panel, Series, cell_of, drawable, series_of
from ioaware.report.figures.labels import BELOW_COMPULSORY, WORDS
from ioaware.report.pages.document import Document
from ioaware.report.pages.figure_set import Shown
from ioaware.report.pages.over_figure import BYTES, FLOOR, HBM, REQUESTED
from ioaware.report.table_cells import TIME_COLUMNS, cell, columns, time_cells
from ioaware.result import Params, Result

MARKS: tuple[Mark, ...] = ("predict", "derive", "trace", "simulate", "measure")
"""Sources, each with the mark of its name."""
FORMULAS = ("predict", "derive")
MAX_TARGETS, MAX_ROWS = 12, 1500
COLUMNS = [
    *columns("requested", "deviation", "HBM", "compulsory", *TIME_COLUMNS, words=("target", "source", "parameters")),
    *columns(words=("status",)),
]
Settings = tuple[tuple[str, str], ...]
Key = tuple[str, Settings]


def store_page(title: str, results: Sequence[Result], command: str, missing: Sequence[str] = ()) -> Document:
    """Return the page of results of any sources.

    `missing` are sentences on what is not there.
    """
    expected, common = _expected(results), _common(results)
    by_target: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_target[result.target].append(result)
    figures = [
        Shown(figure, command)
        for number, (target, points) in enumerate(list(by_target.items())[:MAX_TARGETS])
        if (figure := _figure(number, target, points)) is not None
    ]
    sources = Counter(result.source for result in results)
    bad = Counter(result.status for result in results if result.status != "ok")
    counted = ", ".join(f"{count:,} by {source}" for source, count in sources.items())
    flagged = ", ".join(f"{count:,} {status}" for status, count in bad.items())
    headline = f"{_many(len(results), 'point')} of {_many(len(by_target), 'target')}: {counted or 'none'}."
    values: dict[str, Any] = {
        "headline": headline + (f" Not ok: {flagged}." if flagged else ""),
        "missing": [clean(text, 1000) for text in missing],
        "figure_names": [shown.figure.name for shown in figures],
        "columns": COLUMNS,
        "common": params_text(common),
        "rows": [_row(result, expected, common) for result in with_known_flops(_in_order(results))[:MAX_ROWS]],
        "rows_left": max(0, len(results) - MAX_ROWS),
        "targets_left": max(0, len(by_target) - MAX_TARGETS),
        "made": "",
    }
    return Document("store.html", title, values, figures)


def _key(result: Result) -> Key:
    return result.target, tuple(sorted((name, str(value)) for name, value in result.params.items() if value is not None))


def _expected(results: Sequence[Result]) -> dict[Key, int]:
    """Return the requested bytes by formula at each point that has one.

    The formula is that of `predict` before `derive`.
    """
    found: dict[Key, int] = {}
    for source in FORMULAS:
        for result in results:
            moved = result.requested.total_bytes if result.requested else None
            if result.source == source and moved is not None:
                found.setdefault(_key(result), moved)
    return found


def _common(results: Sequence[Result]) -> Params:
    """Return the parameters that have one value at all of several points."""
    first, *others = [result.params for result in results] or [{}]
    return {name: value for name, value in first.items() if others and all(one.get(name) == value for one in others)}


def _in_order(results: Sequence[Result]) -> list[Result]:
    """Return the results by source and target as they come, then by parameters."""
    places = {(one.source, one.target): at for at, one in reversed(list(enumerate(results)))}

    def order(one: Result) -> tuple[int, list[tuple[str, bool, float, str]]]:
        numbers = [(name, value if isinstance(value, (int, float)) else None, str(value)) for name, value in one.params.items()]
        return places[one.source, one.target], [(name, value is None, value or 0, text) for name, value, text in numbers]

    return sorted(results, key=order)


def _row(result: Result, expected: dict[Key, int], common: Params) -> list[dict[str, Any]]:
    places = [traffic.total_bytes if traffic else None for traffic in (result.requested, result.hbm, result.compulsory)]
    formula = expected.get(_key(result))
    deviation = places[0] / formula - 1 if formula and places[0] is not None and result.source not in FORMULAS else None
    return [
        cell(result.target),
        cell(result.source),
        cell(params_text({name: value for name, value in result.params.items() if name not in common})),
        cell(bytes_text(places[0]), places[0]),
        cell("" if deviation is None else percent_text(deviation), deviation),
        *(cell(bytes_text(place), place) for place in places[1:]),
        *time_cells(result),
        cell(result.status),
    ]


def _figure(number: int, target: str, points: Sequence[Result]) -> Figure | None:
    """Return bytes along a parameter, the others at values, of the most points.

    None where all points differ in more than one parameter.
    """
    groups = list(_groups([result for result in points if result.status not in ("failed", "impossible")]))
    if not groups:
        return None
    varied, others, seen = max(groups, key=lambda group: len({result.params.get(group[0]) for result in group[2]}))
    settings = sum(name == varied for name, *_ in groups)
    series = [one for source in MARKS for one in _series(source, varied, seen)]
    shown = ", ".join(f"{name}={value}" for name, value in others) or "no other parameter"
    caption = f"Points at {shown}. Filled dots are measured, squares traced, open dots simulated, lines formulas."
    caption += f" {settings - 1} other settings are in the table." if settings > 1 else ""
    caption += f" {BELOW_COMPULSORY}" if any(map(_below_compulsory, seen)) else ""
    cell_ = cell_of("", Axis(varied, "size"), Panel(BYTES, tuple(series)))
    return drawable(Figure(f"target{number}", clean(f"{target}: bytes over {varied}"), clean(caption, 1000), (cell_,), 1))


def _many(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' if number != 1 else ''}"


def _below_compulsory(result: Result) -> bool:
    moved, least = (traffic and traffic.total_bytes for traffic in (result.hbm, result.compulsory))
    return moved is not None and least is not None and moved < least


def _groups(points: Sequence[Result]) -> Iterator[tuple[str, Settings, list[Result]]]:
    """Yield each parameter of whole numbers with points that differ in it alone.

    With the values of the other parameters.
    """
    for name in dict.fromkeys(name for result in points for name in result.params):
        found: defaultdict[Settings, list[Result]] = defaultdict(list)
        for result in points:
            value = result.params.get(name)
            if type(value) is int and value > 0:
                found[_others(result.params, name)].append(result)
        for others, seen in found.items():
            if len({result.params.get(name) for result in seen}) > 1:
                yield name, others, seen


def _others(params: Params, varied: str) -> Settings:
    return tuple(sorted((clean(name), clean(value)) for name, value in params.items() if name != varied and value is not None))


def _series(source: Mark, varied: str, points: Sequence[Result]) -> list[Series]:
    own = [result for result in points if result.source == source]
    own.sort(key=lambda result: _number(result.params.get(varied)))
    found: list[Series] = []
    for place, color in (("requested", REQUESTED), ("hbm", HBM), ("compulsory", FLOOR)):
        if place == "compulsory" and source not in FORMULAS:
            continue
        rows = [
            (x, float(moved), f"{varied} = {x:,.0f}\n{place}, {source}: {bytes_text(moved)}")
            for result in own
            if (traffic := getattr(result, place)) is not None and (moved := traffic.total_bytes) is not None
            for x in [_number(result.params.get(varied))]
        ]
        mark: Mark = "compulsory" if place == "compulsory" else source
        found += series_of(f"{'HBM' if place == 'hbm' else place}, {WORDS[source]}", color, mark, rows)  # pyright: ignore[reportArgumentType]
    return found


def _number(value: object) -> float:
    return float(value) if isinstance(value, int) else 0.0
