"""Fitted exponents of the claims, each with its confidence interval beside the power that theory gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ioaware.report.chart import Axis, Cell, Figure, Panel, Series
from ioaware.report.style import ALGORITHMS
from ioaware.report.text import clean

if TYPE_CHECKING:
    from ioaware.analysis.claims.claim import Claim

NARROWEST = 0.1  # a span narrower than this would make noise look like a finding
ROW_HEIGHT = 0.14  # of a panel's usual height, per fitted quantity


def exponents(claims: Sequence[Claim]) -> Figure | None:
    """One cell per claim, one row per fitted power; None where no claim fitted any."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in claims:
        groups[claim.claim] += [row for row in claim.evidence.get("exponents", ()) if _drawable(row)]
    cells = [_cell(name, rows) for name, rows in groups.items() if rows]
    if not cells:
        return None
    return Figure(
        "exponents",
        "Fitted exponents less the theorems'",
        "Each dot is the power fitted to the points of a claim less the power that the theorem gives, its bar the 95 % confidence "
        "interval: theory is the line at 0. Hollow dots are whole counts, shown but not judged: over a finite range their "
        "lower-order terms pull the power away from that of the leading term.",
        tuple(cells),
        columns=min(2, len(cells)),
    )


def _drawable(row: dict[str, Any]) -> bool:
    """An interval that is not finite (too few points) is in the table, spelled out, and cannot be drawn."""
    return all(type(row.get(name)) in (int, float) for name in ("exponent", "low", "high", "expected"))


def _cell(claim: str, rows: Sequence[dict[str, Any]]) -> Cell:
    places = [float(len(rows) - index) for index in range(len(rows))]
    labels = [clean(f"{row['quantity']}, {row['variable']}{_power(row['expected'])}", 60) for row in rows]
    theory = Series("theory", "muted", "theory", (0.0, 0.0), (0.4, len(rows) + 0.6))
    fitted = [series for judged in (True, False) for series in _fitted(rows, places, labels, judged)]
    ends = [0.0, *(_less(row, name) for row in rows for name in ("low", "high"))]
    margin = max(0.08 * (max(ends) - min(ends)), 0.5 * (NARROWEST - (max(ends) - min(ends))))
    x = Axis("fitted exponent − theory's (dimensionless)", "number", log=False, limits=(min(ends) - margin, max(ends) + margin))
    y = Axis("", "number", log=False, ticks=tuple(zip(places, labels, strict=True)), limits=(0.4, len(rows) + 0.6))
    return Cell(claim, x, (Panel(y, (theory, *fitted), max(0.5, ROW_HEIGHT * len(rows))),))


def _fitted(rows: Sequence[dict[str, Any]], places: Sequence[float], labels: Sequence[str], judged: bool) -> Iterator[Series]:
    """One series per colour: the algorithm a quantity's name starts with."""
    for color in (*ALGORITHMS, "other"):
        own = [index for index, row in enumerate(rows) if bool(row.get("judged", True)) == judged and _color(row) == color]
        if own:
            yield Series(
                f"{color} fitted",
                color,
                "interval" if judged else "aside",
                tuple(_less(rows[i], "exponent") for i in own),
                tuple(places[i] for i in own),
                tuple(_hover(rows[i], labels[i]) for i in own),
                spread=tuple((_less(rows[i], "low"), _less(rows[i], "high")) for i in own),
            )


def _less(row: dict[str, Any], name: str) -> float:
    return float(row[name]) - float(row["expected"])


def _power(value: float) -> str:
    """The theorem's power as a superscript: N², M⁻¹."""
    return f"{value:g}".translate(str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·"))


def _color(row: dict[str, Any]) -> str:
    return next((name for name in ALGORITHMS if str(row["quantity"]).startswith(name)), "other")


def _hover(row: dict[str, Any], label: str) -> str:
    return f"{label}\n{row['exponent']:.4f}, 95 % interval {row['low']:.4f} to {row['high']:.4f}\n{row.get('points', '?')} points"
