"""Draw predicted against counted bytes of every recorded launch.

The outliers are shown with their causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ioaware.display.units import bytes_text, percent_text
from ioaware.report.chart import Axis, Cell, Figure, Mark, Panel, Series, drawable
from ioaware.report.pages.document import Document
from ioaware.report.pages.figure_set import Shown
from ioaware.report.table_cells import bytes_shown, cell, columns
from ioaware.simulation.accuracy import MIN_BYTES, PLACES, Accuracy, Comparison, Place, Row

COMMAND = "ioaware accuracy --html FILE"
PREDICTED, COUNTED = Axis("predicted bytes", "bytes"), Axis("counted bytes", "bytes")


def accuracy_page(found: Accuracy, command: str = COMMAND) -> Document:
    """Return the page with a picture for each place.

    It also has the errors by kernel family, the outliers and the missing points.
    """
    figure = drawable(accuracy_figure(found))
    values = {
        "headline": _headline(found),
        "row_columns": columns("launches", "median", "95 %", "worst", "in range", "too small", words=("family", "place")),
        "rows": [_row(row) for row in found.rows],
        "outlier_columns": columns("predicted", "counted", "error", words=("point", "kernel", "place", "why")),
        "outliers": [_outlier(one) for one in found.outliers],
        "missing_columns": columns(words=("point", "why")),
        "missing": [[cell(point), cell(why)] for point, why in found.unpredicted],
        "made": "",
    }
    return Document("accuracy.html", "Predicted bytes against counters", values, [Shown(figure, command)] if figure else [])


def accuracy_figure(found: Accuracy) -> Figure:
    """Return predicted over counted bytes, log-log, one cell for each place.

    A point on the line is predicted exactly. Outliers are hollow.
    """
    caption = (
        "One mark for each recorded launch, or call in steady state; the line is equality. Hollow marks are more than 5 % off: "
        "the text of the mark has the cause, and the table. HBM writes of a single launch below "
        f"{bytes_text(MIN_BYTES['HBM writes'])} and other counters below {bytes_text(MIN_BYTES['HBM reads'])} are "
        "compared in bytes alone, and left out."
    )
    cells = tuple(_cell(place, [one for one in found.comparisons if one.place == place]) for place in PLACES)
    return Figure("accuracy", "Predicted against counted", caption, cells)


def _cell(place: Place, comparisons: Sequence[Comparison]) -> Cell:
    shown = [one for one in comparisons if one.error is not None and one.predicted > 0]
    return Cell(place, PREDICTED, (Panel(COUNTED, tuple(_series(shown))),))


def _series(shown: Sequence[Comparison]) -> Iterator[Series]:
    if not shown:
        return
    ends = [float(end(value for one in shown for value in (one.predicted, one.counted))) for end in (min, max)]
    yield Series("equal", "neutral", "theory", tuple(ends), tuple(ends))
    outliers = [one for one in shown if one.explanation]
    for name, color, group in (
        ("attention", "flash2", [one for one in shown if not one.explanation and not _third_party(one)]),
        ("third-party", "standard", [one for one in shown if not one.explanation and _third_party(one)]),
    ):
        if group:
            yield _marks(f"{name} kernels", color, "measure", group)
    if outliers:
        yield _marks("more than 5 % off", "flash1", "unstable", outliers)


def _marks(name: str, color: str, mark: Mark, group: Iterable[Comparison]) -> Series:
    rows = [(float(one.predicted), float(one.counted), _text(one)) for one in group]
    x, y, hover = zip(*rows, strict=True)
    return Series(name, color, mark, x, y, hover)


def _third_party(one: Comparison) -> bool:
    return one.family.startswith("third-party")


def _text(one: Comparison) -> str:
    lines = [
        f"{one.point}, {one.kernel}",
        f"predicted {bytes_text(one.predicted)}, counted {bytes_text(one.counted)}: {_signed(one)}",
    ]
    return "\n".join([*lines, one.explanation] if one.explanation else lines)


def _signed(one: Comparison) -> str:
    error = (one.predicted - one.counted) / one.counted
    return f"{'+' if error > 0 else '−' if error < 0 else ''}{percent_text(abs(error))}"


def _headline(found: Accuracy) -> str:
    reads = next((row for row in found.rows if (row.family, row.place) == ("all", "HBM reads")), None)
    if reads is None or not reads.count:
        return "No recorded launch has a prediction."
    return (
        f"HBM reads of {reads.count} recorded launches and calls: median error {percent_text(reads.median)}, "
        f"95 % within {percent_text(reads.percentile_95)}, worst {percent_text(reads.worst)}. Predictions are {found.made}."
    )


def _row(row: Row) -> list[dict[str, object]]:
    shares = [(row.median, row.count), (row.percentile_95, row.count), (row.worst, row.count)]
    inside = f"{row.inside} of {row.count + row.small}" if row.has_range else ""
    return [
        cell(row.family),
        cell(row.place),
        cell(row.count, row.count),
        *(cell(percent_text(share) if count else "", share if count else None) for share, count in shares),
        cell(inside, row.inside if inside else None),
        cell(row.small, row.small),
    ]


def _outlier(one: Comparison) -> list[dict[str, object]]:
    words = [cell(one.point), cell(one.kernel), cell(one.place), cell(one.explanation)]
    numbers = [cell(bytes_shown(one.predicted), one.predicted), cell(bytes_shown(one.counted), one.counted)]
    return [*words, *numbers, cell(_signed(one), one.error)]
