"""Separate a map f(x, p) into a finite sum of products g_k(x) h_k(p).

x are elements and p are parameters.

That is possible exactly when f has finite rank: the functions f(., p) of all p then span a space of finite dimension.
The rules are identities of exp, log, powers and products; a map they do not separate may still be separable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import tidy

_sympy: Any = sympy
LARGEST_POWER = 24
MAX_TERMS = 64

Terms = dict[Any, Any]
"""Maps each g_k(x) to its h_k(p)."""


def separate(expr: Any, inputs: frozenset[Any]) -> Terms | None:
    """Return g and h with expr = sum of g(inputs) * h(other symbols).

    None is returned where no rule applies.
    """
    free = expr.free_symbols
    if not free & inputs:
        return {_sympy.Integer(1): expr}
    if free <= inputs:
        number, rest = expr.as_coeff_Mul()
        return {rest: number}
    if expr.is_Add:
        return _sum([separate(part, inputs) for part in expr.args])
    if expr.is_Mul:
        return _product([separate(part, inputs) for part in expr.args])
    if isinstance(expr, _sympy.exp):
        return _exponential(expr.args[0], inputs)
    if expr.is_Pow:
        return _power(expr.args[0], expr.args[1], inputs)
    if isinstance(expr, (_sympy.log, _sympy.Abs)):
        return _of_one_product(expr.func, expr.args[0], inputs)
    return None


def independent_terms(terms: Mapping[Any, Any]) -> Terms:
    """Return the sum with fewer terms.

    Terms with the same h but for a number, or with the same g, become one.
    """
    merged: Terms = {}
    for g, h in terms.items():
        if h == 0:
            continue
        for other_g, other_h in merged.items():
            ratio = tidy(h / other_h)
            if ratio.is_number:
                del merged[other_g]
                merged[other_g + ratio * g] = other_h
                break
        else:
            merged[g] = h
    return merged


def _sum(parts: list[Terms | None]) -> Terms | None:
    result: Terms = {}
    for part in parts:
        if part is None:
            return None
        for g, h in part.items():
            result[g] = result.get(g, _sympy.Integer(0)) + h
    return result if len(result) <= MAX_TERMS else None


def _product(parts: list[Terms | None]) -> Terms | None:
    result: Terms = {_sympy.Integer(1): _sympy.Integer(1)}
    for part in parts:
        if part is None:
            return None
        longer: Terms = {}
        for left_g, left_h in result.items():
            for right_g, right_h in part.items():
                number, g = _sympy.powsimp(left_g * right_g).as_coeff_Mul()
                longer[g] = longer.get(g, _sympy.Integer(0)) + number * left_h * right_h
        result = longer
    return result if len(result) <= MAX_TERMS else None


def _exponential(exponent: Any, inputs: frozenset[Any]) -> Terms | None:
    """Return exp of a sum of terms in x alone or in p alone as one product."""
    terms = separate(exponent, inputs)
    if terms is None or any(g != 1 and h.free_symbols for g, h in terms.items()):
        return None
    of_inputs = _sympy.Add(*(g * h for g, h in terms.items() if g != 1))
    return {_sympy.exp(of_inputs): _sympy.exp(terms.get(_sympy.Integer(1), _sympy.Integer(0)))}


def _power(base: Any, exponent: Any, inputs: frozenset[Any]) -> Terms | None:
    if not exponent.is_Rational:
        return None
    if exponent.is_Integer and 0 < exponent <= LARGEST_POWER:
        part = separate(base, inputs)
        result: Terms | None = part
        for _ in range(int(exponent) - 1):
            result = _product([result, part])
        return result
    one = _one_product(base, inputs)
    if one is None:
        return None
    g, h = one
    if not exponent.is_Integer and not (g.is_nonnegative and h.is_nonnegative):
        return None
    return {g**exponent: h**exponent}


def _of_one_product(function: Any, argument: Any, inputs: frozenset[Any]) -> Terms | None:
    """Return log(g h) as log(g) + log(h) where both are positive, |g h| as |g| |h|."""
    one = _one_product(argument, inputs)
    if one is None:
        return None
    g, h = one
    if function is _sympy.Abs:
        return {_sympy.Abs(g): _sympy.Abs(h)}
    if g.is_positive and h.is_positive:
        return _sum([{_sympy.log(g): _sympy.Integer(1)}, {_sympy.Integer(1): _sympy.log(h)}])
    return None


def _one_product(expr: Any, inputs: frozenset[Any]) -> tuple[Any, Any] | None:
    """Return (g, h) with expr = g(x) h(p), after factoring if need be."""
    for form in (expr, _sympy.factor(expr)):
        terms = separate(form, inputs)
        if terms is not None and len(terms := independent_terms(terms)) == 1:
            ((g, h),) = terms.items()
            return g, h
    return None
