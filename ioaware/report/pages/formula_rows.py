"""Build rows of typeset formulas.

They say what each kernel reads and writes, with the value and the leading term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Expr

from ioaware.analysis.formulas.divisibility_cases import Cases, cases
from ioaware.analysis.formulas.leading_term import leading
from ioaware.analysis.formulas.printing import is_longer_by_data, show
from ioaware.analysis.formulas.typeset import typeset, typeset_condition
from ioaware.analysis.ir import Count, KernelTraffic
from ioaware.derivation.derived import Derived
from ioaware.derivation.launch_formulas import Formulas, formulas_of
from ioaware.display.text import clean
from ioaware.display.time_limit import within
from ioaware.display.units import count_text
from ioaware.report.pages.over import value_at
from ioaware.report.table_cells import bytes_shown
from ioaware.result import Launch

SECONDS, TYPESET_SECONDS = 3.0, 20.0
"""CPU time for a leading term, and for a formula, which length limits already."""
MAX_TEXT = 6000
"""Characters of a formula that are shown as text, where it is too long to typeset."""
MAX_CONDITION = 400
MAX_KERNELS = 12
QUANTITIES: Mapping[str, str] = {
    "reads": "read_bytes",
    "writes": "write_bytes",
    "atomics": "atomic_bytes",
    "read sectors": "read_sector_bytes",
    "write sectors": "write_sector_bytes",
    "FLOPs": "flops",
}
"""Names of the quantities and their attributes."""


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


BRACKET = "<mo>[</mo>"
"""How MathML begins a condition that counts as a number."""


@dataclass(frozen=True, slots=True)
class FormulaTable:
    """A kernel, or the total of several.

    It holds its rows and the conditions of its formulas.
    """

    title: str
    rows: tuple[FormulaRow, ...]
    conditions: tuple[str, ...]

    @property
    def brackets(self) -> bool:
        """Whether a formula has a condition in brackets."""
        return any(BRACKET in part for row in self.rows for part in (row.formula, row.leading, row.otherwise))

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
            tuple(_rows(formulas_of(kernel), derived.values, _launches_of(kernel, derived))),
            _conditions(held[kernel]),
        )
        for kernel in ranked[:MAX_KERNELS]
    ]
    if sum(times.values()) > 1 and derived.formulas is not None:
        tables.append(
            FormulaTable(
                "All launches",
                tuple(_rows(derived.formulas, derived.values, [derived])),
                _conditions(derived.conditions),
            )
        )
    return tables, max(0, len(ranked) - MAX_KERNELS)


def _conditions(conditions: Iterable[object]) -> tuple[str, ...]:
    """Return conditions as text, each once."""
    return tuple(dict.fromkeys(clean(str(one), MAX_CONDITION) for one in conditions))


def _launches_of(kernel: KernelTraffic, derived: Derived) -> list[Launch]:
    return [launch for launch, one in zip(derived.launches, derived.kernels, strict=False) if one == kernel]


def _rows(formulas: Formulas, values: Mapping[str, int], counted: Sequence[Launch | Derived]) -> Iterator[FormulaRow]:
    """Yield a row for each quantity; `counted` are the launches of the formulas.

    A formula whose value depends on data has the bytes that were counted for the target's own data.
    """
    for name, attribute in QUANTITIES.items():
        count: Count | None = getattr(formulas, attribute)
        if count is None or (count.expr == 0 and name not in ("reads", "writes")):
            continue
        own = {_counted(one, attribute) for one in counted}
        value = value_at(count, values)
        if value is None or all(one.exact for one in counted):
            value = own.pop() if len(own) == 1 else value
        unit = count_text if name == "FLOPs" else bytes_shown
        shown = "depends on data" if value is None else unit(value)
        if value is not None and not count.expr.free_symbols and name != "FLOPs":
            shown = f"{value:,} B"
        at_most = "≤ " if count.at_most and value is not None and not all(one.exact for one in counted) else ""
        yield formula_row(name, at_most + shown, count.expr, count.at_most)


def _counted(one: Launch | Derived, attribute: str) -> int | None:
    return one.flops if attribute == "flops" else getattr(one.requested, attribute, None)


def formula_row(name: str, value: str, expr: Expr, at_most: bool = False) -> FormulaRow:
    """Return the row of one formula; an upper bound has its sign.

    A formula that takes long to write is given by its name alone.
    """
    case = within(SECONDS, lambda: cases(expr)) or Cases(expr)
    written = within(SECONDS, lambda: show(case.whole)) or ""
    formula = (within(TYPESET_SECONDS, lambda: typeset(case.whole)) or "") if written else ""
    found: Any = within(SECONDS, lambda: leading(expr).term) if written else None
    term = ""
    if found is not None and found != case.whole and found.free_symbols and not is_longer_by_data(found, expr):
        term = within(TYPESET_SECONDS, lambda: typeset(found)) or ""
    where = "" if case.where is None else typeset_condition(case.where)
    other = "" if case.otherwise is None else within(TYPESET_SECONDS, lambda: typeset(case.otherwise)) or ""  # pyright: ignore[reportArgumentType]
    if at_most:
        formula, term, other = ("≤\N{NO-BREAK SPACE}" + part if part else "" for part in (formula, term, other))
        written = "<= " + written if written else ""
    fixed = not expr.free_symbols
    return FormulaRow(name, value, formula, clean(written, MAX_TEXT), len(written), term, where, other, fixed)
