"""Eliminate common subexpressions for display.

An example is `A*n**2 - B*n` with n = ceil(seq_len/128).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.formulas.iverson import Bracket, with_brackets
from ioaware.analysis.formulas.printing import show

_sympy: Any = sympy
WORTH_NAMING = (_sympy.ceiling, _sympy.floor, _sympy.Min, _sympy.Max, _sympy.Sum, Bracket)
LETTERS = "nmpqrsuvwxyzabcdefghjk"
MAX_NODES = 2000
SHORT = 80
"""Most characters of a formula that is shown without names."""
SHORTEST = 8
"""Least characters of an expression that gets a name."""


@dataclass(frozen=True, slots=True)
class NamedFormula:
    """A formula with named subexpressions.

    Each name is defined in terms of earlier ones.
    """

    expr: Expr
    names: tuple[tuple[str, Expr], ...] = ()


def name_subexpressions(expr: Expr) -> NamedFormula:
    """Name repeated roundings, extremes and sums of a long formula.

    A formula of more than MAX_NODES nodes is returned unchanged.
    """
    expr = with_brackets(expr)
    if sum(1 for _ in _some(expr)) >= MAX_NODES or len(show(expr)) <= SHORT:
        return NamedFormula(expr)
    taken = {str(symbol) for symbol in _symbols(expr)}
    letters = [letter for letter in LETTERS if letter not in taken]
    found: list[tuple[str, Expr]] = []
    while letters:
        repeated = _most_repeated(expr)
        if repeated is None:
            break
        name, *letters = letters
        symbol = _sympy.Symbol(name, integer=True, nonnegative=True)
        exchanged: Any = expr
        expr = exchanged.xreplace({repeated: symbol})
        found = [(other, _replaced(value, repeated, symbol)) for other, value in found]
        found.append((name, repeated))
    return NamedFormula(expr, tuple(_in_order(found)))


def _some(expr: Any) -> Iterator[Any]:
    for at, node in enumerate(_sympy.preorder_traversal(expr)):
        if at >= MAX_NODES:
            return
        yield node


def _symbols(expr: Any) -> set[Any]:
    """Return all symbols, including indices."""
    return expr.atoms(sympy.Symbol)


def _most_repeated(expr: Any) -> Any:
    """Return the subexpression that saves the most characters when named."""
    inside = {index for node in expr.atoms(sympy.Sum) for index, *_ in node.args[1:]}
    counts = Counter(node for node in _some(expr) if isinstance(node, WORTH_NAMING) and not node.free_symbols & inside)
    saved = {node: (times - 1) * len(show(node)) for node, times in counts.items() if times > 1 and len(show(node)) >= SHORTEST}
    return max(saved, key=lambda node: (saved[node], show(node)), default=None)


def _replaced(value: Any, part: Any, symbol: Any) -> Any:
    return value.xreplace({part: symbol})


def _in_order(found: list[tuple[str, Expr]]) -> Iterator[tuple[str, Expr]]:
    """Yield each definition after those it uses."""
    waiting = list(found)
    while waiting:
        names = {name for name, _ in waiting}
        ready = next(
            (pair for pair in waiting if not {str(symbol) for symbol in _symbols(pair[1])} & (names - {pair[0]})), waiting[0]
        )
        waiting.remove(ready)
        yield ready
