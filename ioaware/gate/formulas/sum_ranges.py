"""Order the ranges of a sum.

Each comes after those whose index it uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Limit = tuple[Any, Any, Any]
"""An index, its first value and its last."""


def outermost_first(limits: Iterable[Limit]) -> list[Limit] | None:
    """Return the ranges in the given order, but each after those whose index it uses.

    None where two ranges use each other's index.
    """
    from ioaware.analysis.formulas.functions import free_symbols

    left, found = list(limits), list[Limit]()
    while left:
        waiting = {symbol for symbol, _, _ in left}
        ready = (limit for limit in left if waiting.isdisjoint(free_symbols(limit[1]) | free_symbols(limit[2])))
        first = next(ready, None)
        if first is None:
            return None
        left.remove(first)
        found.append(first)
    return found


def with_ranges_by_name(expr: Any) -> Any:
    """Return the formula with independent ranges of each sum in order of name.

    Why: two sums that differ in that order alone are then one expression.
    """
    from ioaware.analysis.formulas.functions import Series, arguments

    def ordered(*args: Any) -> Any:
        body, *limits = args
        found = outermost_first(sorted(map(arguments, limits), key=lambda limit: str(limit[0])))
        return Series(body, *(found[::-1] if found else limits))

    return expr.replace(Series, ordered) if expr.has(Series) else expr
