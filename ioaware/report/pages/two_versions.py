"""Compare two derived versions of a kernel.

They may differ in numbers, terms of formulas, and lines.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import sympy
from sympy import Expr

from ioaware.analysis.formulas.printing import show
from ioaware.analysis.formulas.typeset import typeset
from ioaware.analysis.ir import Count
from ioaware.derivation.line_costs import LineCost, line_cost
from ioaware.derivation.line_report import Explanation, Section
from ioaware.display.text import clean
from ioaware.display.time_limit import within
from ioaware.report.pages.findings import Findings
from ioaware.report.pages.over import value_at

_sympy: Any = sympy
SECONDS, MAX_TERM = 5.0, 300
Change = Literal["same", "removed", "added"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A quantity of both versions; None where it is unknown or, of a term, absent.

    `name` is text for people; `html` is a term's name with its formulas typeset.
    """

    name: str
    old: int | None
    new: int | None
    html: str = ""

    @property
    def ratio(self) -> float | None:
        """New over old."""
        return self.new / self.old if self.old and self.new is not None else None


@dataclass(frozen=True, slots=True)
class LinePair:
    """A line of the old version, of the new, or of both; the function it is in."""

    function: str
    change: Change
    old: LineCost | None
    new: LineCost | None


def numbers(old: Findings, new: Findings) -> list[Pair]:
    """Return the totals of both versions at their given parameters."""
    sides = [one.derived.requested for one in (old, new)]
    named = (
        ("reads", "read_bytes"), ("writes", "write_bytes"), ("atomics", "atomic_bytes"), ("read sectors", "read_sector_bytes"),
        ("write sectors", "write_sector_bytes"),
    )  # fmt: skip
    rows = [Pair(name, sides[0] and getattr(sides[0], field), sides[1] and getattr(sides[1], field)) for name, field in named]
    rows.append(Pair("HBM, simulated", old.hbm_bytes, new.hbm_bytes))
    rows.append(Pair("compulsory", old.compulsory_bytes, new.compulsory_bytes))
    known = {(row.old, row.new): row for row in reversed(rows[:3])}  # sectors that are the bytes say nothing more
    rows = [row for row in rows if not row.name.endswith("sectors") or (row.old, row.new) not in known]
    return [row for row in rows if row.old or row.new]


def terms(old: Findings, new: Findings) -> list[Pair]:
    """Return the terms of reads and writes in either version, changed ones first.

    Their bytes are at the given parameters.
    """
    rows: list[Pair] = []
    for name in ("read_bytes", "write_bytes", "atomic_bytes"):
        counts: list[Any] = [getattr(one.derived.formulas, name) for one in (old, new)]
        both = [_terms(count) for count in counts]
        kind = name.removesuffix("_bytes") + ("s at most" if any(count.at_most for count in counts) else "s")
        for term in dict.fromkeys((*both[0], *both[1])):
            values = [
                value_at(Count(parts[term] * term), one.derived.values) if term in parts else 0
                for parts, one in zip(both, (old, new), strict=True)
            ]
            forms = [show(parts[term] * term) if term in parts else "–" for parts in both]
            label = forms[0] if forms[0] == forms[1] else f"{forms[0]} → {forms[1]}"
            drawn = [_typeset(parts[term] * term) if term in parts else "–" for parts in both]
            html = f"{kind}: " + (drawn[0] if forms[0] == forms[1] else f"{drawn[0]} → {drawn[1]}")
            old_bytes, new_bytes = values
            rows.append(Pair(f"{kind}: {clean(label, MAX_TERM)}", old_bytes, new_bytes, html))
    return sorted(rows, key=lambda row: (row.old == row.new, -abs((row.new or 0) - (row.old or 0))))


def _typeset(term: Expr) -> str:
    return within(SECONDS, lambda: typeset(term)) or f"<code>{escape(clean(show(term), MAX_TERM))}</code>"


def _terms(count: Count) -> dict[Expr, Expr]:
    """Return the coefficient of each distinct term of a formula.

    The formula is written out as a sum where that is quick.
    """
    whole: Any = within(SECONDS, lambda: _sympy.expand(count.expr)) or count.expr
    found: dict[Any, Any] = {}
    for term in _sympy.Add.make_args(whole):
        factor, rest = term.as_coeff_Mul()
        found[rest] = found.get(rest, 0) + factor
    return {term: factor for term, factor in found.items() if factor != 0}


Side = tuple[Explanation, Section]
"""A kernel and one of its functions."""


def changed_lines(old: Findings, new: Findings) -> Iterator[LinePair]:
    """Yield the lines that changed or move bytes in either version, in order.

    Functions of one name are compared, then the others in order.
    """
    for one, other in _paired(_sections(old), _sections(new)):
        before, after = (_costs(side, found) for side, found in ((one, old), (other, new)))
        was, now = _name(one or other), _name(other or one)
        texts = [[cost.line.text.strip() for cost in costs] for costs in (before, after)]
        for tag, low, high, start, end in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
            if tag == "equal":
                pairs = zip(before[low:high], after[start:end], strict=True)
                yield from (LinePair(now, "same", a, b) for a, b in pairs if a.line.accesses or b.line.accesses)
                continue
            yield from (LinePair(was, "removed", cost, None) for cost in before[low:high])
            yield from (LinePair(now, "added", None, cost) for cost in after[start:end])


def _paired(old: list[Side], new: list[Side]) -> Iterator[tuple[Side | None, Side | None]]:
    """Yield the new version's functions, each with one of the old, then the rest."""
    left = list(old)
    own: list[Side | None] = []
    for _, section in new:
        at = next((at for at, one in enumerate(left) if one[1].function == section.function), None)
        own.append(None if at is None else left.pop(at))
    for before, after in zip(own, new, strict=True):
        yield before or (left.pop(0) if left else None), after
    yield from ((one, None) for one in left)


def _name(side: Side | None) -> str:
    return clean(side[1].function) if side else ""


def _sections(found: Findings) -> list[Side]:
    """Return each function of the kernels once."""
    pairs = [(kernel, section) for kernel in found.source.kernels for section in kernel.sections]
    return list({(section.path, section.function): (kernel, section) for kernel, section in pairs}.values())


def _costs(side: Side | None, found: Findings) -> list[LineCost]:
    if side is None:
        return []
    kernel, section = side
    return [line_cost(line, kernel, found.derived.values) for line in section.lines]
