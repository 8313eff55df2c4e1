"""Print expressions in Python's notation.

For example, e^x is exp(x), and the larger of two is max(a, b).
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.str import StrPrinter

_sympy: Any = sympy


class _Printer(StrPrinter):
    """sympy's printer with the names of `ioaware.fusion`.

    Negative terms stand after the others.
    """

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
        inherited: Any = super()
        return sorted(inherited._as_ordered_terms(expr, order=order), key=lambda term: term.could_extract_minus_sign())

    def _call(self, name: str, expr: Any) -> str:
        printer: Any = self
        return f"{name}({', '.join(sorted(str(printer._print(argument)) for argument in expr.args))})"

    def _print_Max(self, expr: Any) -> str:  # noqa: N802 - sympy looks printers up by class name
        return self._call("max", expr)

    def _print_Min(self, expr: Any) -> str:  # noqa: N802
        return self._call("min", expr)

    def _print_Abs(self, expr: Any) -> str:  # noqa: N802
        return self._call("abs", expr)

    def _print_Rint(self, expr: Any) -> str:  # noqa: N802
        return self._call("round", expr)


def formula(expr: Any) -> str:
    """Return an expression as text."""
    printer: Any = _Printer()
    return str(printer.doprint(expr))
