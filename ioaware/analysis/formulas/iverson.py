"""Iverson brackets: truth values in formulas as `[n >= m + 3]` and `[n == 5]`."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.formulas.common_parts import Substitution, parts_of
from ioaware.analysis.formulas.functions import Holds

_sympy: Any = sympy
_LATEX = {">=": r"\geq", "<=": r"\leq", "==": "="}
_MATHML = {">=": "\u2265", "<=": "\u2264", "==": "="}


class Bracket(sympy.Function):
    """[x >= 0], or [x == 0] where the second argument is 1.

    For display: evaluation has no rule for it.
    """

    nargs = 2
    is_integer = True
    is_nonnegative = True

    def _sympystr(self, printer: Any) -> str:
        left, sign, right = relation(self)
        return f"[{printer._print(left)} {sign} {printer._print(right)}]"

    def _latex(self, printer: Any) -> str:
        left, sign, right = relation(self)
        return rf"\left[{printer._print(left)} {_LATEX[sign]} {printer._print(right)}\right]"

    def _mathml_presentation(self, printer: Any) -> Any:
        left, sign, right = relation(self)
        row = printer.dom.createElement("mrow")
        for mark, value in (("[", left), (_MATHML[sign], right), ("]", None)):
            operator = printer.dom.createElement("mo")
            operator.appendChild(printer.dom.createTextNode(mark))
            row.appendChild(operator)
            if value is not None:
                row.appendChild(printer._print(value))
        return row


def relation(bracket: Any) -> tuple[Any, str, Any]:
    """Return the relation of a bracket in normal form.

    No minus sign stands on either side, and a number stands alone on the right.
    """
    value, equal = bracket.args
    constant, rest = value.as_coeff_Add()
    terms = _sympy.Add.make_args(rest)
    below = [term for term in terms if term.could_extract_minus_sign()]
    if not below:
        return rest, "==" if equal else ">=", -constant
    if len(below) == len(terms):
        return -rest, "==" if equal else "<=", constant
    left, right = rest - _sympy.Add(*below), -_sympy.Add(*below)
    return left + max(constant, 0), "==" if equal else ">=", right + max(-constant, 0)


def with_brackets(expr: Expr) -> Expr:
    """Write truth values as brackets, and [x >= 0] [-x >= 0] as [x == 0]."""
    found: Any = expr
    if not found.has(Holds):
        return expr
    products = {node: _with_equations(node) for node in parts_of(found, sympy.Mul) if len(node.args) > 1}
    found = Substitution({node: other for node, other in products.items() if other is not node})(found)
    return Substitution({holds: Bracket(with_brackets(holds.args[0]), 0) for holds in parts_of(found, Holds)})(found)


def _with_equations(product: Any) -> Any:
    factors = list(product.args)
    for holds in [factor for factor in factors if isinstance(factor, Holds)]:
        value: Any = holds.args[0]
        opposite: Any = Holds(-value)
        if holds in factors and opposite in factors:
            factors.remove(holds)
            factors.remove(opposite)
            factors.append(Bracket(-value if value.could_extract_minus_sign() else value, 1))
    return product if len(factors) == len(product.args) else _sympy.Mul(*factors)
