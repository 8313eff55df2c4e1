"""Read formulas of both sides of a gate over the same names.

Where one cannot be read, the reason is kept.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ioaware.errors import UsageError
from ioaware.gate.formulas.formula_reader import read_conditions, read_formula
from ioaware.gate.formulas.sum_ranges import with_ranges_by_name

UNKNOWN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*@[A-Za-z0-9_./<>-]+:[0-9]+'*")
"""A value that a kernel loads from memory.

Formulas name it `Lock@layer_norm.py:179`.
"""

SIGNS: Mapping[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def symbols(names: Iterable[str]) -> dict[str, Any]:
    """Return a positive integer symbol for each name.

    The formulas of a derivation have the same symbols.
    """
    import sympy

    made: Any = sympy.Symbol
    return {name: made(name, integer=True, positive="@" not in name or None) for name in names}


def read_pair(old: str, new: str, names: Iterable[str]) -> tuple[Any, Any] | str:
    """Return both formulas, or the reason why one cannot be read."""
    known = symbols({*names, *UNKNOWN.findall(old), *UNKNOWN.findall(new)})
    found: list[Any] = []
    for side, text in (("old", old), ("new", new)):
        try:
            found.append(with_ranges_by_name(read_formula(text, known)))
        except UsageError as error:
            return f"the {side} formula cannot be read: {error.what}"
        except RecursionError:
            return f"the {side} formula is nested too deep"
    return found[0], found[1]


def admission(conditions: Iterable[str], names: Iterable[str]) -> Callable[[Mapping[str, int]], bool]:
    """Return whether formulas hold at given sizes, by their conditions.

    Never, where a condition cannot be read.
    """
    from ioaware.gate.formulas.formula_order import value_at

    relations: list[tuple[Any, str, Any]] = []
    known = symbols(names)
    try:
        for text in conditions:
            relations += read_conditions(text, known)
    except (UsageError, RecursionError):
        return lambda _: False

    def admits(point: Mapping[str, int]) -> bool:
        for left, sign, right in relations:
            one, other = value_at(left, point), value_at(right, point)
            if one is None or other is None or not SIGNS[sign](one, other):
                return False
        return True

    return admits
