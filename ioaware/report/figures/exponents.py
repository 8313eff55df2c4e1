"""Draw fitted exponents of the claims, with confidence intervals and the theorems' powers."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ioaware.display.text import claim_title, clean
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series
from ioaware.report.style import ALGORITHMS

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim

NARROWEST = 0.1  # a span narrower than this would make noise look like a finding
LONGEST_LABEL = 64
LEADING = ", leading term"
ROW_HEIGHT = 0.14  # of a panel's usual height, per fitted quantity


def exponents(claims: Sequence[Claim]) -> Figure | None:
    """Return one cell per claim, one row per fitted power.

    None where no claim fitted any.
    """
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in claims:
        groups[claim_title(claim.claim)] += [row for row in claim.evidence.get("exponents", ()) if _drawable(row)]
    cells = [_cell(name, rows) for name, rows in groups.items() if rows]
    if not cells:
        return None
    return Figure(
        "exponents",
        "Fitted exponents less the theorems'",
        "Each dot is the power fitted to a claim's points less the power of the theorem; its bar is the 95 % confidence "
        "interval. Theory is the line at 0. The fit is to the leading term where one is known. Hollow dots are powers of "
        "whole counts. Lower-order terms bend those over a finite range, so they are shown and not judged.",
        tuple(cells),
        columns=1,
    )


def _drawable(row: dict[str, Any]) -> bool:
    """Return the powers with a finite interval; the table lists the others."""
    return all(type(row.get(name)) in (int, float) for name in ("exponent", "low", "high", "expected"))


def _cell(claim: str, rows: Sequence[dict[str, Any]]) -> Cell:
    labels = [_label(row) for row in rows]
    lines = list(dict.fromkeys(labels))  # a whole count and its leading term share a line
    places = [float(len(lines) - lines.index(label)) for label in labels]
    theory = Series("theory", "muted", "theory", (0.0, 0.0), (0.4, len(lines) + 0.6))
    ends = [0.0, *(_less(row, name) for row in rows for name in ("low", "high"))]
    margin = max(0.08 * (max(ends) - min(ends)), 0.5 * (NARROWEST - (max(ends) - min(ends))))
    x = Axis("fitted − theory (power)", "number", log=False, limits=(min(ends) - margin, max(ends) + margin))
    ticks = tuple((float(len(lines) - index), line) for index, line in enumerate(lines))
    y = Axis("", "number", log=False, ticks=ticks, limits=(0.4, len(lines) + 0.6))
    return Cell(claim, x, (Panel(y, (theory, *_fitted(rows, places, labels)), max(0.5, ROW_HEIGHT * len(lines))),))


def _fitted(rows: Sequence[dict[str, Any]], places: Sequence[float], labels: Sequence[str]) -> Iterator[Series]:
    """Return one series per colour (the algorithm of a quantity's name) and verdict."""
    for color, judged in itertools.product((*ALGORITHMS, "other"), (True, False)):
        own = [i for i, row in enumerate(rows) if _color(row) == color and (row.get("verdict") != "not judged") == judged]
        if own:
            yield Series(
                f"{color} {'fitted' if judged else 'whole count'}",
                color,
                "interval" if judged else "whole",
                tuple(_less(rows[i], "exponent") for i in own),
                tuple(places[i] for i in own),
                tuple(_hover(rows[i], labels[i]) for i in own),
                spread=tuple((_less(rows[i], "low"), _less(rows[i], "high")) for i in own),
            )


def _label(row: dict[str, Any]) -> str:
    """Return `flash1: traced bytes, N²`, cut to what fits beside the axis."""
    quantity = str(row["quantity"]).removesuffix(LEADING)
    text = clean(f"{quantity}, {row['variable']}{_power(row['expected'])}")
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _less(row: dict[str, Any], name: str) -> float:
    return float(row[name]) - float(row["expected"])


def _power(value: float) -> str:
    """Return the theorem's power as a superscript: N², M⁻¹."""
    return f"{value:g}".translate(str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·"))


def _color(row: dict[str, Any]) -> str:
    return next((name for name in ALGORITHMS if str(row["quantity"]).startswith(name)), "other")


def _hover(row: dict[str, Any], label: str) -> str:
    return (
        f"{label}\n{row['exponent']:.4f}, 95 % interval {row['low']:.4f} to {row['high']:.4f}\n{row.get('points', '?')} points"
    )
