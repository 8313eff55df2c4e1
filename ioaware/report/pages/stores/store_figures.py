"""Draw the points of a store or a study.

Targets with several points have curves along their most varied parameter, the others bars of their largest point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ioaware.display.text import clean
from ioaware.report.chart import Axis, Figure, Mark, Panel, Series, cell_of, drawable, series_of
from ioaware.report.figures.labels import BELOW_COMPULSORY, WORDS
from ioaware.report.pages.figure_set import Shown
from ioaware.report.pages.over_figure import BYTES, FLOOR, HBM, REQUESTED
from ioaware.report.svg.bars import Bar, BarFigure
from ioaware.report.table_cells import bytes_shown
from ioaware.result import Params, Result

MARKS: tuple[Mark, ...] = ("predict", "derive", "trace", "simulate", "measure")
"""Sources, each with the mark of its name."""
FORMULAS = ("predict", "derive")
PLACES = (("requested", "requested", REQUESTED), ("HBM", "hbm", HBM), ("compulsory", "compulsory", FLOOR))
SECOND: Mapping[str, str] = {"requested": "tutorial", "compulsory": "hopper"}
"""Colours of derived lines that lie upon predicted ones."""
MAX_CURVES, MAX_BARS = 12, 24
Settings = tuple[tuple[str, str], ...]
Groups = Mapping[str, Sequence[Result]]


def figures_of(by_target: Groups, command: str) -> tuple[list[Shown], int]:
    """Return the figures of each target's points, and how many targets have none."""
    good = {name: [one for one in points if one.status not in ("failed", "impossible")] for name, points in by_target.items()}
    curves: list[Shown] = []
    alone: dict[str, Sequence[Result]] = {}
    left = 0
    for number, (target, points) in enumerate(good.items()):
        figure = _curve(number, target, points)
        if figure is None:
            alone[target] = points
        elif len(curves) < MAX_CURVES:
            curves.append(Shown(figure, command))
        else:
            left += 1
    bars, missing = _largest(alone)
    return [*curves, *([Shown(bars, command)] if bars.bars else [])], left + missing


def _curve(number: int, target: str, points: Sequence[Result]) -> Figure | None:
    """Return bytes along a parameter, the others at values, of the most points.

    None where all points differ in more than one parameter.
    """
    groups = list(_groups(points))
    if not groups:
        return None
    varied, others, seen = max(groups, key=lambda group: len({result.params.get(group[0]) for result in group[2]}))
    settings = sum(name == varied for name, *_ in groups) - 1
    sources = {result.source for result in seen}
    series = [one for source in MARKS for one in _series(source, varied, seen, upon=sources.issuperset(FORMULAS))]
    caption = f"At {', '.join(f'{name}={value}' for name, value in others) or 'no other parameter'}."
    caption += f" {settings} other setting{'s are' if settings > 1 else ' is'} in the table." if settings else ""
    caption += f" {BELOW_COMPULSORY}" if any(map(_below_compulsory, seen)) else ""
    cell = cell_of("", Axis(varied, "size"), Panel(BYTES, tuple(series)))
    return drawable(Figure(f"target{number}", clean(f"{target}: bytes over {varied}"), clean(caption, 1000), (cell,), 1))


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


def _below_compulsory(result: Result) -> bool:
    moved, least = (traffic and traffic.total_bytes for traffic in (result.hbm, result.compulsory))
    return moved is not None and least is not None and moved < least


def _series(source: Mark, varied: str, points: Sequence[Result], *, upon: bool) -> Iterator[Series]:
    """Yield the series of a source. `upon`: derived lines lie upon predicted ones."""
    own = [result for result in points if result.source == source]
    own.sort(key=lambda result: _number(result.params.get(varied)))
    for place, field, color in PLACES:
        if place == "compulsory" and source not in FORMULAS:
            continue
        rows = [
            (x, float(moved), f"{varied} = {x:,.0f}\n{place}, {WORDS[source]}: {bytes_shown(moved)}")
            for result in own
            if (moved := _bytes(result, field)) is not None
            for x in [_number(result.params.get(varied))]
        ]
        mark: Mark = "compulsory" if place == "compulsory" else source
        if upon and source == "derive":
            color, mark = SECOND.get(place, color), "second"
        yield from series_of(f"{place}, {WORDS[source]}", color, mark, rows)  # pyright: ignore[reportArgumentType]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int) else 0.0


def _bytes(result: Result, field: str) -> int | None:
    traffic = getattr(result, field)
    return traffic.total_bytes if traffic else None


def _largest(alone: Groups) -> tuple[BarFigure, int]:
    """Return bars of each target's largest point, and how many have none."""
    bars: list[Bar] = []
    left = 0
    for target, points in alone.items():
        own = list(_bars(target, points))
        room = own and len(bars) + len(own) <= MAX_BARS
        bars += own if room else []
        left += not room
    caption = "Of each target without a curve: the point that requests the most bytes."
    return BarFigure("alone", "Bytes of single points", caption, tuple(bars)), left


def _bars(target: str, points: Sequence[Result]) -> Iterator[Bar]:
    """Yield requested and HBM bytes of the largest point, measured before computed."""
    largest = max(points, key=lambda one: _bytes(one, "requested") or 0, default=None)
    at = [one for one in points if largest and one.params == largest.params]
    at.sort(key=lambda one: -MARKS.index(one.source) if one.source in MARKS else 0)
    for place, field, color in PLACES[:2]:
        known = next(((one, moved) for one in at if (moved := _bytes(one, field)) is not None), None)
        if known:
            result, moved = known
            yield Bar(clean(f"{target}: {place}, {WORDS.get(result.source, result.source)}"), moved, bytes_shown(moved), color)
