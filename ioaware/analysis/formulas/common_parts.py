"""Substitute and search in formulas that have parts in common.

Why: sympy walks a formula as a tree, in which a common part is there as often as it occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sympy import Basic, Expr

_basic: Any = Basic


def parts_of(formula: Any, *kinds: Any) -> set[Any]:
    """Return what `formula.atoms(*kinds)` returns; each common part is looked at once."""
    seen, waiting = {formula}, [formula]
    while waiting:
        new = [part for part in waiting.pop().args if isinstance(part, Basic) and part not in seen]
        seen.update(new)
        waiting += new
    return {part for part in seen if isinstance(part, kinds)}


def count_parts(formula: Any) -> int:
    """Return how many distinct parts a formula has: more than any of its parts."""
    return len(parts_of(formula, object))


@lru_cache(maxsize=4096)
def operations(formula: Any) -> int:
    """Return how many operations a formula has."""
    return formula.count_ops()


class Substitution:
    """Substitute as `Expr.xreplace`, each common part of the formulas once.

    Why: sympy builds a part anew wherever it occurs, and evaluating a minimum of long sums takes milliseconds.
    """

    def __init__(self, rule: Mapping[Any, Any]) -> None:
        self._rule = dict(rule)
        self._known: dict[Any, Any] = dict(rule)

    def __call__(self, formula: Expr) -> Expr:
        """Return the formula with everything substituted."""
        return self._of(formula) if self._rule else formula

    def _of(self, part: Any) -> Any:
        if not isinstance(part, Basic):
            return part
        if part not in self._known:
            self._known[part] = self._rebuilt(part)
        return self._known[part]

    def _rebuilt(self, part: Any) -> Any:
        kind: Any = type(part)  # pyright: ignore[reportUnknownVariableType]
        if kind._xreplace is not _basic._xreplace:  # a class with a substitution of its own
            return part.xreplace(self._rule)
        args = tuple(map(self._of, part.args))
        changed = any(new is not old for new, old in zip(args, part.args, strict=True))
        return part.func(*args) if changed else part
