"""Typeset formulas of any length as HTML.

A line may end before a term of a sum. Repeated parts of a long formula get names, which are defined behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from html import escape
from typing import Any

from sympy import Expr

from ioaware.analysis.formulas.common_subexpressions import name_subexpressions
from ioaware.analysis.formulas.iverson import with_brackets
from ioaware.analysis.formulas.printing import show
from ioaware.display.math_lines import breakable
from ioaware.display.mathml import mathml
from ioaware.display.text import clean

MAX_TEXT = 3000
"""Characters of a formula and of its names up to which it is typeset."""


@lru_cache(maxsize=1024)
def typeset(expr: Expr) -> str:
    """Return a formula as MathML in HTML; empty where it is too long even with names.

    A page shows a formula several times, and its names take up to seconds to find.
    """
    named = name_subexpressions(expr)
    if sum(len(show(part)) for part in (named.expr, *(value for _, value in named.names))) > MAX_TEXT:
        return ""
    names = ", ".join(breakable(_before(f"<mi>{name}</mi><mo>=</mo>", value)) for name, value in named.names)
    return breakable(mathml(named.expr)) + (f' <span class="with">with {names}</span>' if names else "")


def formulas_html(rows: Iterable[tuple[str, Expr, Expr]], conditions: Iterable[str] = ()) -> str:
    """Return a table of names with their formulas, and the conditions below it.

    The formulas are those of reads and writes.
    """
    cells = (
        f"<tr><th>{escape(clean(name))}</th><td>{_shown(reads)}</td><td>{_shown(writes)}</td></tr>"
        for name, reads, writes in rows
    )
    table = f"<table><tr><th></th><th>reads</th><th>writes</th></tr>{''.join(cells)}</table>"
    held = ", ".join(f"<code>{escape(clean(condition))}</code>" for condition in conditions)
    return f"{table}<p>for {held}</p>" if held else table


def _shown(expr: Expr) -> str:
    return typeset(expr) or f"<code>{escape(clean(show(expr), MAX_TEXT))}</code>"


def typeset_condition(holds: Any) -> str:
    """Return a condition as MathML."""
    return mathml(with_brackets(holds))


def _before(marks: str, expr: Expr) -> str:
    """Return a formula with marks in front."""
    return mathml(expr).replace("<math>", f"<math>{marks}", 1)
