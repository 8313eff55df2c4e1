"""Draw the page of a store or a study.

It shows the points of each target along its most varied parameter, and every point in a table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ioaware.display.text import clean, params_text
from ioaware.display.units import percent_text
from ioaware.measurement.time_bounds import with_known_flops
from ioaware.report.figures.labels import WORDS
from ioaware.report.pages.document import Document
from ioaware.report.pages.stores.store_figures import FORMULAS, Settings, figures_of
from ioaware.report.table_cells import TIME_COLUMNS, Cells, bytes_shown, cell, columns, common_params, telling, time_cells
from ioaware.result import Params, Result

MAX_ROWS = 1500
COLUMNS = [
    *columns("formula", "requested", "deviation", "HBM", "compulsory", *TIME_COLUMNS, words=("target", "source", "parameters")),
    *columns(words=("status",)),
]
STANDINGS: Mapping[str, str] = {
    "throttled": "throttled: the GPU lowered its clocks there, which changes the time and not the bytes",
    "unstable": "unstable: other processes used the GPU, or the rounds differ",
    "impossible": "impossible: the numbers contradict each other",
}
"""What the flags of points mean."""
Key = tuple[str, Settings]


def store_page(title: str, results: Sequence[Result], command: str, missing: Sequence[str] = ()) -> Document:
    """Return the page of results of any sources.

    `missing` are sentences on what is not there.
    """
    expected, common = _expected(results), common_params([result.params for result in results])
    names = short_names(dict.fromkeys(result.target for result in results))
    by_target: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_target[names[result.target]].append(result)
    figures, targets_left = figures_of(by_target, command)
    counted_at = {_key(one) for one in results if not _of_formula(one, expected)}
    ordered = with_known_flops(_in_order(results))
    shown = [one for one in ordered if not (_of_formula(one, expected) and _key(one) in counted_at)]
    rows = [_row(result, names[result.target], expected, common) for result in shown[:MAX_ROWS]]
    told, rows = telling(COLUMNS, rows) if rows else (COLUMNS, rows)
    only, told, rows = _one_source(shown, told, rows)
    sources = Counter(result.source for result in results)
    bad = Counter(result.status for result in results if result.status != "ok")
    counted = ", ".join(f"{count:,} {WORDS.get(source, source)}" for source, count in sources.items())
    flagged = "".join(f" {count:,} {STANDINGS.get(status, status)}." for status, count in bad.items())
    headline = f"{_many(len(results), 'point')} of {_many(len(by_target), 'target')}: {counted or 'none'}."
    values: dict[str, Any] = {
        "headline": headline + flagged,
        "missing": [clean(text, 1000) for text in missing],
        "figure_names": [shown.figure.name for shown in figures],
        "columns": told,
        "common": params_text(common),
        "only": only,
        "full_names": [clean(f"{name}: {target}") for target, name in names.items() if name != target],
        "rows": rows,
        "rows_left": max(0, len(shown) - MAX_ROWS),
        "targets_left": targets_left,
        "made": "",
    }
    return Document("store.html", title, values, figures)


def _one_source(shown: Sequence[Result], told: list[dict[str, Any]], rows: list[Cells]) -> tuple[str, Any, Any]:
    """Return the source of all points in words, and the table without its column.

    The table stays as it is, and the words are empty, where points are of several sources.
    """
    if len(sources := {one.source for one in shown}) != 1:
        return "", told, rows
    (source,), at = sources, [column["name"] for column in told].index("source")
    return WORDS.get(source, source), told[:at] + told[at + 1 :], [row[:at] + row[at + 1 :] for row in rows]


def short_names(targets: Iterable[str]) -> dict[str, str]:
    """Return the function of `module:function` where its name is the only one.

    Else the target.
    """
    functions = {target: target.rpartition(":")[2] or target for target in targets}
    count = Counter(functions.values())
    return {target: name if count[name] == 1 else target for target, name in functions.items()}


def _key(result: Result) -> Key:
    return result.target, tuple(sorted((name, str(value)) for name, value in result.params.items() if value is not None))


def _expected(results: Sequence[Result]) -> dict[Key, Result]:
    """Return the result of a formula at each point that has one.

    Results of `predict` come before those of `derive`.
    """
    found: dict[Key, Result] = {}
    for source in FORMULAS:
        for result in results:
            if result.source == source and _requested(result) is not None:
                found.setdefault(_key(result), result)
    return found


def _requested(result: Result) -> int | None:
    return result.requested.total_bytes if result.requested else None


def _in_order(results: Sequence[Result]) -> list[Result]:
    """Return the results by source and target as they come, then by parameters."""
    places = {(one.source, one.target): at for at, one in reversed(list(enumerate(results)))}

    def order(one: Result) -> tuple[int, list[tuple[str, bool, float, str]]]:
        numbers = [(name, value if isinstance(value, (int, float)) else None, str(value)) for name, value in one.params.items()]
        return places[one.source, one.target], [(name, value is None, value or 0, text) for name, value, text in numbers]

    return sorted(results, key=order)


def _of_formula(result: Result, expected: Mapping[Key, Result]) -> bool:
    formula = expected.get(_key(result))
    return formula is not None and result.source == formula.source


def _row(result: Result, name: str, expected: Mapping[Key, Result], common: Params) -> list[dict[str, Any]]:
    formula, own = expected.get(_key(result)), _requested(result)
    least = result.compulsory or (formula and formula.compulsory)
    hbm, compulsory = (traffic.total_bytes if traffic else None for traffic in (result.hbm, least))
    predicted = _requested(formula) if formula else None
    own = None if _of_formula(result, expected) else own
    deviation = own / predicted - 1 if predicted and own is not None else None
    return [
        cell(name),
        cell(result.source),
        cell(params_text({name: value for name, value in result.params.items() if name not in common})),
        *map(_bytes_cell, (predicted, own)),
        cell("" if deviation is None else percent_text(deviation), deviation),
        *map(_bytes_cell, (hbm, compulsory)),
        *(time_cells(result) if result.time_ns else (cell(""), cell(""))),
        cell("" if result.status == "ok" else result.status),
    ]


def _bytes_cell(value: int | None) -> dict[str, Any]:
    return cell("" if value is None else bytes_shown(value), value)


def _many(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' if number != 1 else ''}"
