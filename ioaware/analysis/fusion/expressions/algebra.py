"""Decide identities between expressions.

These are built by rational operations from symbols, exponentials, logarithms and roots.

An exponential of a sum is a product of powers of exp(term), and each exp(term) is treated as an unknown. An identity is then
one between rational functions, which cancelling decides. "Zero" is always proven. Logarithms or roots that depend on each other
can only hide a zero.
"""

from __future__ import annotations

from functools import lru_cache
from math import lcm
from typing import Any

import sympy

_sympy: Any = sympy


@lru_cache(maxsize=4096)
def tidy(expr: Any) -> Any:
    """Return an equal expression in a normal form.

    Exponentials and powers are merged for reading.
    """
    rational, exponentials = _without_exponentials(_sympy.expand_log(expr))
    found = _sympy.factor(_sympy.cancel(_sympy.together(rational)))
    return _sympy.powsimp(found.xreplace(exponentials), combine="exp")


@lru_cache(maxsize=4096)
def is_zero(expr: Any) -> bool:
    """Return whether the expression is proven to be 0 wherever it is defined."""
    rational, _ = _without_exponentials(_sympy.expand_log(expr))
    return bool(_sympy.cancel(_sympy.together(_sympy.expand(rational))) == 0)


def is_nonzero(expr: Any) -> bool:
    """Return whether the expression is proven nonzero wherever it is defined.

    The proof holds whatever the sign of its symbols.
    """
    numerator = _sympy.fraction(tidy(expr))[0]
    any_sign = {symbol: _sympy.Dummy(symbol.name, real=True) for symbol in numerator.free_symbols}
    return numerator.xreplace(any_sign).is_zero is False


def _is_exponential(node: Any) -> bool:
    return isinstance(node, _sympy.exp)


def _with_expanded_exponent(node: Any) -> Any:
    return _sympy.exp(_sympy.expand(node.args[0]))


def _without_exponentials(expr: Any) -> tuple[Any, dict[Any, Any]]:
    """Return the expression with exp(c*term) as powers, and each unknown's term.

    Each exp(c*term) becomes a power of an unknown.
    """
    merged = expr.replace(_is_exponential, _with_expanded_exponent)
    powers: dict[Any, list[Any]] = {}
    for node in merged.atoms(_sympy.exp):
        for term in _sympy.Add.make_args(node.args[0]):
            coefficient, rest = term.as_coeff_Mul()
            powers.setdefault(rest, []).append(coefficient)
    unknowns: dict[Any, tuple[Any, int]] = {}
    for rest, coefficients in powers.items():
        denominator = lcm(*(int(coefficient.q) for coefficient in coefficients if coefficient.is_Rational))
        unknowns[rest] = (_sympy.Dummy("E", positive=True), denominator)

    def product(node: Any) -> Any:
        result = _sympy.Integer(1)
        for term in _sympy.Add.make_args(node.args[0]):
            coefficient, rest = term.as_coeff_Mul()
            unknown, denominator = unknowns[rest]
            result *= unknown ** (coefficient * denominator)
        return result

    replaced = {node: product(node) for node in merged.atoms(_sympy.exp)}
    meaning = {unknown: _sympy.exp(rest / denominator) for rest, (unknown, denominator) in unknowns.items()}
    return merged.xreplace(replaced), meaning
