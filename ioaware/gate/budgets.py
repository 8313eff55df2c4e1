"""Limit a target's bytes, spills and TMA loads.

No update of a snapshot raises such a budget.

A limit with names of sizes, `12*n`, holds at every size from the given ones on; one that is a number holds at the given sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ioaware.errors import UsageError
from ioaware.gate.formulas.formula_order import Point, at_text, drawn, names_of, proven_at_most, value_at
from ioaware.gate.formulas.formula_reader import read_formula
from ioaware.gate.verdict import Verdict

BYTES: Mapping[str, tuple[str, ...]] = {
    "max_bytes": ("reads", "writes", "atomics"),
    "max_reads": ("reads",),
    "max_writes": ("writes",),
    "max_torch_bytes": ("torch_reads", "torch_writes"),
}
"""The bytes that each budget limits: of kernels, or of torch's operators."""
COUNTS = ("max_spills", "min_tma_loads")
NAMES = (*BYTES, "vs_compulsory", *COUNTS)
EXAMPLE = 'For example max_bytes="6*n", max_reads=1_000_000, vs_compulsory=1.05, max_spills=0, min_tma_loads=2.'


@dataclass(frozen=True, slots=True)
class Work:
    """Input of budgets.

    It holds formulas in bytes with the sizes at which they are evaluated, and facts of the kernels.
    """

    formulas: Mapping[str, Any]
    point: Point
    admits: Callable[[Point], bool]
    exact: bool
    compulsory: int | None
    spills: int | None
    tma_loads: int | None

    def total(self, kinds: tuple[str, ...]) -> Any:
        """Return the sum of these formulas; None where one is unknown."""
        first, *rest = (self.formulas[kind] for kind in kinds)
        return None if None in (first, *rest) else sum(rest, first)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one budget: SAME where the work is within it."""

    budget: str
    verdict: Verdict
    reason: str


def check_budgets(budgets: Mapping[str, object]) -> None:
    """Raise `UsageError` for an unknown budget or an invalid limit.

    A limit is invalid if it has the wrong type, is negative, or is not finite.
    """
    for name, limit in budgets.items():
        if name not in NAMES:
            raise UsageError(f"there is no budget {name!r}", f"Budgets: {', '.join(NAMES)}. {EXAMPLE}")
        if name == "vs_compulsory":
            if type(limit) not in (int, float) or not 0 < limit <= sys.float_info.max:  # pyright: ignore[reportArgumentType, reportOperatorIssue]
                raise UsageError(f"vs_compulsory is a positive number, not {limit!r}", EXAMPLE)
        elif not (type(limit) is int and limit >= 0) and (name in COUNTS or type(limit) is not str):
            raise UsageError(f"{name} is {'' if name in COUNTS else 'a formula or '}a whole number, not {limit!r}", EXAMPLE)


def judge(work: Work, budgets: Mapping[str, Any]) -> list[Judgement]:
    """Return the verdict on each budget.

    Raises `UsageError` for a limit that cannot be read.
    """
    check_budgets(budgets)
    return [Judgement(name, *_judge(work, name, limit)) for name, limit in budgets.items()]


def _judge(work: Work, name: str, limit: Any) -> tuple[Verdict, str]:
    if name == "max_spills":
        return _at_most(work.spills, limit, "bytes of local memory a thread")
    if name == "min_tma_loads":
        return _at_least(work.tma_loads, limit, "TMA loads")
    if not work.exact:
        return Verdict.INCOMPARABLE, "the bytes are not exact: see the notes of `ioaware derive`"
    if name == "vs_compulsory":
        return _against_compulsory(work, limit)
    return _bytes(work, work.total(BYTES[name]), limit)


def _at_most(found: int | None, limit: int, unit: str) -> tuple[Verdict, str]:
    if found is None:
        return Verdict.INCOMPARABLE, f"the {unit} are not known"
    return (Verdict.SAME if found <= limit else Verdict.WORSE), f"{found} {unit}, the limit is {limit}"


def _at_least(found: int | None, limit: int, unit: str) -> tuple[Verdict, str]:
    if found is None:
        return Verdict.INCOMPARABLE, f"the {unit} are not known"
    return (Verdict.SAME if found >= limit else Verdict.WORSE), f"{found} {unit}, the least is {limit}"


def _against_compulsory(work: Work, limit: float) -> tuple[Verdict, str]:
    moved = value_at(work.total(BYTES["max_bytes"]), work.point)
    if not moved or not work.compulsory:
        return Verdict.INCOMPARABLE, "the compulsory bytes are not known"
    ratio = moved / work.compulsory
    within = ratio <= limit
    verdict = Verdict.SAME if within else Verdict.WORSE
    return verdict, f"{moved:,} B are {ratio:.4g} times the compulsory {work.compulsory:,} B, the limit is {limit:g} times"


def _bytes(work: Work, moved: Any, limit: Any) -> tuple[Verdict, str]:
    import sympy

    if moved is None:
        return Verdict.INCOMPARABLE, "the bytes are not known"
    names = {str(symbol): symbol for symbol in moved.free_symbols}
    allowed: Any = sympy.Integer(limit) if type(limit) is int else read_formula(limit, {**_symbols(work.point), **names})
    value, most = value_at(moved, work.point), value_at(allowed, work.point)
    if value is None or most is None:
        return Verdict.INCOMPARABLE, "a formula has no value at the given sizes"
    here = f"{value:,} B, the limit is {most:,} B at {at_text(work.point)}"
    if not value <= most:
        return Verdict.WORSE, f"{here}: {value - most:,} B too many"
    if not names_of([allowed]) or proven_at_most(moved, allowed) or proven_at_most(moved, allowed, work.point):
        return Verdict.SAME, here
    for point in _larger(work, sorted(names_of([moved, allowed]))):
        value, most = value_at(moved, point), value_at(allowed, point)
        if value is not None and most is not None and value > most:
            return Verdict.GROWTH, f"within it here, and {value - most:,} B too many at {at_text(point)}"
    return Verdict.UNSURE, f"{here}; not proven at larger sizes"


def _larger(work: Work, names: list[str]) -> Iterator[Point]:
    """Yield sizes no smaller than the given ones at which the formulas hold."""
    for point in drawn(names, [work.point]):
        if all(point[name] >= least for name, least in work.point.items() if name in point) and work.admits(point):
            yield point


def _symbols(point: Point) -> dict[str, Any]:
    from ioaware.gate.formulas.formula_names import symbols

    return symbols(point)
