"""Build rows of typeset formulas.

They say what each kernel reads and writes, with the value and the leading term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sympy import Expr

from ioaware.analysis.formulas.divisibility_cases import Cases, cases
from ioaware.analysis.formulas.leading_term import leading
from ioaware.analysis.formulas.printing import show
from ioaware.analysis.formulas.typeset import typeset, typeset_condition
from ioaware.analysis.ir import Count
from ioaware.derivation.derived import Derived
from ioaware.derivation.launch_formulas import Formulas, formulas_of
from ioaware.display.text import clean
from ioaware.display.time_limit import within
from ioaware.display.units import UNKNOWN, bytes_text, significant
from ioaware.report.pages.over import value_at

SECONDS = 3.0
MAX_TEXT = 6000
"""Characters of a formula that are shown as text, where it is too long to typeset."""
MAX_CONDITION = 400
MAX_KERNELS = 12


@dataclass(frozen=True, slots=True)
class FormulaRow:
    """Describe one quantity by its value, its formula and its leading term.

    Formulas are HTML with MathML. `formula` is empty where it is too long to typeset; then `text` is shown.

    `where` is the divisibility that the formula is for, `otherwise` the formula of other lengths; empty where it is for all.
    """

    name: str
    value: str
    formula: str
    text: str
    length: int
    leading: str
    where: str = ""
    otherwise: str = ""
    constant: bool = False


@dataclass(frozen=True, slots=True)
class FormulaTable:
    """A kernel, or the total of several.

    It holds its rows and the conditions of its formulas.
    """

    title: str
    rows: tuple[FormulaRow, ...]
    conditions: tuple[str, ...]

    @property
    def constant(self) -> bool:
        """Whether no formula has a variable."""
        return all(row.constant for row in self.rows)

    @property
    def leads(self) -> bool:
        """Whether a formula has a leading term."""
        return any(row.leading for row in self.rows)


def formula_tables(derived: Derived) -> tuple[list[FormulaTable], int]:
    """Return a table per distinct kernel, most bytes first, then the total.

    And how many kernels are left out.
    """
    times = Counter(kernel for kernel in derived.kernels if kernel is not None)
    held = {kernel: conditions for kernel, conditions in zip(derived.kernels, derived.holds, strict=True) if kernel is not None}
    ranked = sorted(times, key=lambda kernel: -(value_at(formulas_of(kernel).read_bytes, derived.values) or 0) * times[kernel])
    tables = [
        FormulaTable(
            clean(kernel.kernel) + (f", {times[kernel]} launches, each" if times[kernel] > 1 else ""),
            tuple(_rows(formulas_of(kernel), derived)),
            tuple(clean(condition, MAX_CONDITION) for condition in held[kernel]),
        )
        for kernel in ranked[:MAX_KERNELS]
    ]
    if sum(times.values()) > 1 and derived.formulas is not None:
        tables.append(
            FormulaTable(
                "All launches",
                tuple(_rows(derived.formulas, derived)),
                tuple(clean(one, MAX_CONDITION) for one in derived.conditions),
            )
        )
    return tables, max(0, len(ranked) - MAX_KERNELS)


def _rows(formulas: Formulas, derived: Derived) -> Iterator[FormulaRow]:
    counted: tuple[tuple[str, Count | None], ...] = (
        ("reads", formulas.read_bytes),
        ("writes", formulas.write_bytes),
        ("atomics", formulas.atomic_bytes),
        ("read sectors", formulas.read_sector_bytes),
        ("write sectors", formulas.write_sector_bytes),
        ("FLOPs", formulas.flops),
    )
    for name, count in counted:
        if count is None or (count.expr == 0 and name not in ("reads", "writes")):
            continue
        value = value_at(count, derived.values)
        shown = significant(value, 5) if value is not None and name == "FLOPs" else bytes_text(value)
        if value is not None and not count.expr.free_symbols and name != "FLOPs":
            shown = f"{value:,} B"
        yield formula_row(name, "depends on data" if shown == UNKNOWN else ("≤ " if count.at_most else "") + shown, count.expr)


def formula_row(name: str, value: str, expr: Expr) -> FormulaRow:
    """Return the row of one formula.

    A formula that takes long to write is given by its name alone.
    """
    case = within(SECONDS, lambda: cases(expr)) or Cases(expr)
    written = within(SECONDS, lambda: show(case.whole)) or ""
    formula = (within(SECONDS, lambda: typeset(case.whole)) or "") if written else ""
    found: Any = within(SECONDS, lambda: leading(expr).term) if written else None
    term = ""
    if found is not None and found != case.whole and found.free_symbols:
        term = within(SECONDS, lambda: typeset(found)) or ""
    where = "" if case.where is None else typeset_condition(case.where)
    other = "" if case.otherwise is None else within(SECONDS, lambda: typeset(case.otherwise)) or ""  # pyright: ignore[reportArgumentType]
    fixed = not expr.free_symbols
    return FormulaRow(name, value, formula, clean(written, MAX_TEXT), len(written), term, where, other, fixed)
