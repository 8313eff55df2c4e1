"""Write the tables of docs/results/simulation-accuracy.md from the record.

    python -m scripts.accuracy_tables [--check]

Each table stands between two comments, `<!-- NAME -->` and `<!-- end -->`. With --check nothing is
written; the exit code is then 1 where the page differs from the record.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ioaware.simulation import predictions as files
from ioaware.simulation.accuracy import GOALS, PLACES, Accuracy, Comparison, Row, point_key
from ioaware.simulation.accuracy_record.counter_comparison import compare
from ioaware.simulation.accuracy_record.l1_reuse import read_l1_answers
from ioaware.simulation.accuracy_record.steady_state import is_steady

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "simulation-accuracy.md"
TABLE = re.compile(r"(<!-- (?P<name>[a-z-]+) -->\n\n?).*?(\n?<!-- end -->)", re.DOTALL)
TOGETHER = ("all", "held out")
MEGABYTE = 1e6


def record() -> Accuracy:
    """Compare all recorded points with all recorded predictions."""
    found = [*files.read_predictions(), *files.committed_before()]
    return compare(
        files.measured_points(), found, files.held_out_points(), files.read_predictions(files.STEADY), read_l1_answers()
    )


def again() -> list[tuple[str, Accuracy]]:
    """Compare the points that are predicted again, earlier and now."""
    folder = files.PREDICTIONS.parent / "again"
    single, steady = (files.read_predictions(folder / name) for name in ("predictions.jsonl", "steady.jsonl"))
    chosen = [{point_key(one.target, one.params) for one in found} for found in (single, steady)]
    points = [one for one in files.measured_points() if point_key(one.target, one.params) in chosen[1 if is_steady(one) else 0]]
    before = [*files.read_predictions(), *files.committed_before()]
    held, l1 = files.held_out_points(), read_l1_answers()
    return [
        ("earlier", compare(points, before, held, files.read_predictions(files.STEADY), l1)),
        ("again", compare(points, single, held, steady, l1)),
    ]


def again_table(found: Iterable[tuple[str, Accuracy]]) -> str:
    """Return errors at HBM of points that are predicted again, before and after."""
    rows = [(name, row) for name, one in found for row in one.rows if row.family == "all" and row.place.startswith("HBM")]
    cells = [(row.place, name, str(row.count), *_errors(row), _inside(row)) for name, row in rows]
    return _table(_AGAIN, sorted(cells, key=lambda cell: cell[0]))


def tables(found: Accuracy) -> dict[str, str]:
    """Return the Markdown of each table by name."""
    rows = found.rows
    at_hbm = [one for one in found.outliers if one.place.startswith("HBM")]
    return {
        "counts": _counts(found, at_hbm),
        "summary": _table(_SUMMARY, [_summary(row) for row in rows if row.family in TOGETHER]),
        "families": _table(_FAMILIES, [_family(row) for row in rows if row.family not in TOGETHER]),
        "causes": _causes(found.outliers),
        "outliers": _table(_OUTLIERS, [_outlier(one) for one in at_hbm]),
    }


_SUMMARY = ("points", "place", "compared", "median", "95 %", "worst", "goals", "in range")
_AGAIN = ("place", "prediction", "compared", "median", "95 %", "worst", "in range")
_FAMILIES = ("family", "place", "compared", "median", "95 %", "worst", "in range", "too small: number, worst")
_OUTLIERS = ("point", "kernel", "place", "predicted, MB", "counted, MB", "held out", "why")


def _counts(found: Accuracy, at_hbm: Sequence[Comparison]) -> str:
    points = {(one.point, one.kernel == "one call") for one in found.comparisons}
    held = {(one.point, one.kernel == "one call") for one in found.comparisons if one.held_out}
    families = {one.family for one in found.comparisons}
    return (
        f"{len(points)} points of {len(families)} kernel families are compared, {len(held)} of them held out. "
        f"{len(found.unpredicted)} recorded points have no prediction. "
        f"{len(found.outliers)} comparisons are more than 5 % off, {len(at_hbm)} of them at HBM.\n"
    )


def _summary(row: Row) -> Sequence[str]:
    goals = ", ".join(_percent(goal) for goal in GOALS[row.place]) if row.place in GOALS else "–"
    return (row.family, row.place, str(row.count), *_errors(row), goals, _inside(row))


def _family(row: Row) -> Sequence[str]:
    small = f"{row.small}, {row.worst_small_bytes / MEGABYTE:.1f} MB" if row.small else ""
    return (row.family, row.place, str(row.count), *_errors(row), _inside(row), small)


def _errors(row: Row) -> Sequence[str]:
    return [_percent(value) if row.count else "–" for value in (row.median, row.percentile_95, row.worst)]


def _percent(value: float) -> str:
    """Return percent with two digits, or all digits before the point."""
    return f"{100 * value:.0f}" if value >= 0.1 else f"{100 * value:.2g}"


def _inside(row: Row) -> str:
    return f"{row.inside} of {row.count + row.small}" if row.place.startswith("HBM") else "–"


def _causes(outliers: Iterable[Comparison]) -> str:
    """Return how many outliers each cause has, by place."""
    found = Counter((one.explanation, one.place) for one in outliers)
    causes = sorted({cause for cause, _ in found}, key=lambda cause: (-sum(found[cause, place] for place in PLACES), cause))
    return _table(("why", *PLACES), [(cause, *(str(found[cause, place] or "") for place in PLACES)) for cause in causes])


def _outlier(one: Comparison) -> Sequence[str]:
    point = re.sub(r"ioaware\.kernels\.attention\.(pytorch\.)?\w*targets:|scripts/foreign/", "", one.point)
    point = re.sub(r" (batch=1|dtype=float16|deterministic=False)(?= |$)", "", point)
    sizes = [f"{value / MEGABYTE:.1f}" for value in (one.predicted, one.counted)]
    place = one.place.removeprefix("HBM ")
    return (f"`{point}`", f"`{one.kernel}`", place, *sizes, "yes" if one.held_out else "", one.explanation)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 where `--check` finds a difference, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    text, found = PAGE.read_text(encoding="utf-8"), {**tables(record()), "again": again_table(again())}
    made = TABLE.sub(lambda match: match[1] + found[match["name"]] + match[3], text)
    if given.check:
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
