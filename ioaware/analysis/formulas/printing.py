"""Formulas as text, in Python's notation: `e*(N*d + 2*N_k*d*ceil(N/B_r))`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import lcm
from typing import Any

import sympy
from sympy import Expr
from sympy.printing.str import StrPrinter

from ioaware.analysis.formulas.iverson import Bracket, relation, with_brackets

_sympy: Any = sympy


class _Printer(StrPrinter):
    """sympy's printer with Python's names for the functions of formulas."""

    def __init__(self) -> None:
        inherited: Any = super()
        inherited.__init__()
        self._printed: dict[Any, str] = {}

    def _print(self, expr: Any, **kwargs: Any) -> str:
        """Print each repeated subexpression once."""
        inherited: Any = super()
        if kwargs:
            return str(inherited._print(expr, **kwargs))
        text = self._printed.get(expr)
        if text is None:
            text = self._printed[expr] = str(inherited._print(expr))
        return text

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> Sequence[Any]:
        """Order negative terms after the others: N - B_r, not -B_r + N."""
        inherited: Any = super()
        terms: Sequence[Any] = inherited._as_ordered_terms(expr, order=order)
        return sorted(terms, key=lambda term: bool(term.could_extract_minus_sign()))

    def _text(self, expr: Any) -> str:
        printer: Any = self
        return str(printer._print(expr))

    def _call(self, name: str, args: Sequence[Any]) -> str:
        return f"{name}({', '.join(map(self._text, args))})"

    def _print_ceiling(self, expr: Any) -> str:
        return self._call("ceil", [_over_one_divisor(expr.args[0])])

    def _print_floor(self, expr: Any) -> str:
        return self._call("floor", [_over_one_divisor(expr.args[0])])

    def _print_Max(self, expr: Any) -> str:  # noqa: N802 - sympy looks printers up by class name
        return self._call("max", sorted(expr.args, key=str))

    def _print_Min(self, expr: Any) -> str:  # noqa: N802
        return self._call("min", sorted(expr.args, key=str))

    def _print_GreaterThan(self, expr: Any) -> str:  # noqa: N802
        truth = isinstance(expr.lhs, Bracket) and expr.rhs == 1  # a condition that is a truth value
        left, sign, right = relation(expr.lhs) if truth else (expr.lhs, ">=", expr.rhs)
        return f"{self._text(left)} {sign} {self._text(right)}"

    def _print_And(self, expr: Any) -> str:  # noqa: N802
        return " and ".join(sorted(map(self._text, expr.args)))

    def _print_Piecewise(self, expr: Any) -> str:  # noqa: N802
        *cases, (last, always) = expr.args
        if always != True:  # noqa: E712 - sympy's own
            cases, last = expr.args, "unknown"
        text = "".join(f"{self._text(value)} if {self._text(when)} else " for value, when in cases)
        return f"({text}{last if isinstance(last, str) else self._text(last)})"

    def _print_Mod(self, expr: Any) -> str:  # noqa: N802
        printer: Any = self
        return " % ".join(str(printer.parenthesize(part, 50)) for part in expr.args)

    def _print_Equality(self, expr: Any) -> str:  # noqa: N802
        return f"{self._text(expr.lhs)} == {self._text(expr.rhs)}"

    def _print_Sum(self, expr: Any) -> str:  # noqa: N802
        """Print the outermost range first, as Python reads it.

        sympy keeps the innermost first.
        """
        body, *limits = expr.args
        loops = "".join(f" for {i} in range({self._bounds(low, high)})" for i, low, high in reversed(limits))
        return f"sum({self._text(body)}{loops})"

    def _bounds(self, low: Any, high: Any) -> str:
        end = self._text(high + 1)
        return end if low == 0 else f"{self._text(low)}, {end}"


def _over_one_divisor(value: Any) -> Any:
    """Return (N + 31)/48 for N/48 + 31/48."""
    if not isinstance(value, sympy.Add):
        return value
    terms: Any = value.args
    coefficients = [term.as_coeff_Mul()[0] for term in terms]
    divisor = lcm(*(int(c.q) for c in coefficients if c.is_Rational))
    return value if divisor == 1 else _sympy.Mul(_sympy.Rational(1, divisor), value * divisor, evaluate=False)


@lru_cache(maxsize=4096)
def show(expr: Expr) -> str:
    """Return the formula as text, for reading only.

    Nothing in ioaware parses a formula.
    """
    return str(_Printer().doprint(with_brackets(expr)))  # pyright: ignore[reportUnknownMemberType]


def is_longer_by_data(term: Expr, expr: Expr) -> bool:
    """Return whether a leading term in unknown data is longer than its formula.

    An unknown's name has a source line.
    """
    symbols: Any = term.free_symbols
    return any("@" in str(symbol) for symbol in symbols) and len(show(term)) > len(show(expr))
