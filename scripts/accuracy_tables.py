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

from ioaware.simulation.accuracy import GOALS, PLACES, PREDICTED_AGAIN, Accuracy, Comparison, Row
from ioaware.simulation.accuracy_record.recorded_accuracy import predicted_again, recorded_accuracy
from ioaware.simulation.predictions import measured_points

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "simulation-accuracy.md"
TABLE = re.compile(r"(<!-- (?P<name>[a-z-]+) -->\n\n?).*?(\n?<!-- end -->)", re.DOTALL)
TOGETHER = ("all", "held out", PREDICTED_AGAIN)
MEGABYTE = 1e6


def again_table(first: Accuracy, again: Accuracy) -> str:
    """Return errors of the first predictions and of those made again.

    By place: both at the counters that both predict, then those made again at all counters.
    """
    known = {_counter(one) for one in first.comparisons} & {_counter(one) for one in again.comparisons}
    groups = (
        ("first, of both", [one for one in first.comparisons if _counter(one) in known]),
        ("again, of both", [one for one in again.comparisons if _counter(one) in known]),
        ("again, all", again.comparisons),
    )
    found = [(name, row) for name, part in groups for row in Accuracy(tuple(part), ()).rows if row.family == "all"]
    found.sort(key=lambda pair: PLACES.index(pair[1].place))
    return _table(_AGAIN, [(row.place, name, str(row.count), *_errors(row), _inside(row)) for name, row in found])


def outlier_table(first: Accuracy, again: Accuracy) -> str:
    """Return the outliers at HBM of either prediction, with both.

    The cause is that of the prediction made again, where there is one and it is an outlier.
    """
    later = {_counter(one): one for one in again.comparisons}
    earlier = {_counter(one): one for one in first.comparisons}
    outliers = {_counter(one): one for found in (again, first) for one in found.outliers if one.place.startswith("HBM")}
    order = sorted(
        outliers, key=lambda counter: -max((found[counter].error or 0) for found in (earlier, later) if counter in found)
    )
    return _table(_OUTLIERS, [_outlier(outliers[one], earlier.get(one), later.get(one)) for one in order])


def _counter(one: Comparison) -> tuple[str, str, str, int]:
    """Return what identifies a recorded counter; a split by L1 reuse may differ."""
    return one.point, one.kernel, one.place.partition(",")[0], one.counted


def tables(found: Accuracy) -> dict[str, str]:
    """Return the Markdown of each table by name."""
    rows = found.rows
    at_hbm = [one for one in found.outliers if one.place.startswith("HBM")]
    return {
        "counts": _counts(found, at_hbm),
        "summary": _table(_SUMMARY, [_summary(row) for row in rows if row.family in TOGETHER]),
        "families": _table(_FAMILIES, [_family(row) for row in rows if row.family not in TOGETHER]),
        "causes": _causes(found.outliers),
    }


_SUMMARY = ("points", "place", "compared", "median", "95 %", "worst", "goals", "in range")
_AGAIN = ("place", "prediction", "compared", "median", "95 %", "worst", "in range")
_FAMILIES = ("family", "place", "compared", "median", "95 %", "worst", "in range", "too small: number, worst")
_OUTLIERS = ("point", "kernel", "place", "first, MB", "again, MB", "counted, MB", "held out", "why")


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
    return f"{row.inside} of {row.count + row.small}" if row.has_range else "–"


def _causes(outliers: Iterable[Comparison]) -> str:
    """Return how many outliers each cause has, by place."""
    found = Counter((one.explanation, one.place) for one in outliers)
    causes = sorted({cause for cause, _ in found}, key=lambda cause: (-sum(found[cause, place] for place in PLACES), cause))
    return _table(("why", *PLACES), [(cause, *(str(found[cause, place] or "") for place in PLACES)) for cause in causes])


def _outlier(one: Comparison, first: Comparison | None, again: Comparison | None) -> Sequence[str]:
    point = re.sub(r"ioaware\.kernels\.attention\.(pytorch\.)?\w*targets:|scripts/foreign/", "", one.point)
    point = re.sub(r" (batch=1|dtype=float16|deterministic=False)(?= |$)", "", point)
    sizes = [f"{made.predicted / MEGABYTE:.1f}" if made else "" for made in (first, again)]
    why = "within 5 % again" if again and not again.explanation else (again or one).explanation
    held = "yes" if first and first.held_out else ""
    return (f"`{point}`", f"`{one.kernel}`", one.place.removeprefix("HBM "), *sizes, f"{one.counted / MEGABYTE:.1f}", held, why)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 where `--check` finds a difference, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    points = measured_points()
    first, again = recorded_accuracy(points), predicted_again(points)
    found = {**tables(first), "again": again_table(first, again), "outliers": outlier_table(first, again)}
    text = PAGE.read_text(encoding="utf-8")
    made = TABLE.sub(lambda match: match[1] + found[match["name"]] + match[3], text)
    if given.check:
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
