"""Close sums of floors over all remainders by Hermite's identity.

Persistent kernels have such sums.

For every integer x and P >= 1, sum over i in range(P) of floor((x + i)/P) = x. Source: Graham, Knuth, Patashnik, Concrete
Mathematics, 2nd ed., 3.26. With -i, substitute P - 1 - i for i.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.formulas.functions import Series

_sympy: Any = sympy


def close_floor_sums(expr: Expr) -> Expr:
    """Close the sums that the identity applies to.

    The rest of such a sum stays summed.
    """
    whole: Any = expr
    if not whole.has(sympy.Sum):
        return expr
    sums = [node for node in whole.atoms(sympy.Sum) if len(node.args) == 2]
    outcomes = {node: outcome for node in sums if (outcome := _closed(node)) is not None}
    if not outcomes:
        return expr
    found = whole.xreplace(outcomes)
    return found if found.has(sympy.Sum) else _sympy.expand(found)


def _closed(node: Any) -> Any:
    body, (index, low, high) = node.args
    count = high + 1
    if low != 0:
        return None
    terms: list[Any] = list(_sympy.Add.make_args(_sympy.expand_mul(body, deep=False)))
    found = [value for term in terms if term.has(index) and (value := _term(term, index, count)) is not None]
    if not found:  # a count that is not a divisor may be negative, and the sum is then 0
        return None
    total: Any = _sympy.Add(*found)
    rest: list[Any] = []
    for term in terms:
        if not term.has(index):
            total = total + term * count
        elif _term(term, index, count) is None:
            rest.append(term)
    return total + Series(_sympy.Add(*rest), (index, low, high)) if rest else total


def _term(term: Any, index: Any, count: Any) -> Any:
    """Return the sum of one term that is a floor or ceiling of (x +- i)/P."""
    roundings = [factor for factor in _sympy.Mul.make_args(term) if isinstance(factor, (sympy.floor, sympy.ceiling))]
    moving: list[Any] = [factor for factor in roundings if factor.has(index)]  # pyright: ignore[reportUnknownMemberType]
    if len(moving) != 1:
        return None
    (rounding,) = moving
    outside = term / rounding
    numerator = _sympy.expand(rounding.args[0] * count)
    slope = numerator.coeff(index)
    start = _sympy.expand(numerator - slope * index)
    if outside.has(index) or slope not in (1, -1) or start.has(index) or not start.is_integer:
        return None
    first = start if slope == 1 else start - count + 1  # as a floor of (first + i)/P
    return outside * (first if isinstance(rounding, sympy.floor) else first + count - 1)  # ceil(y/P) = floor((y + P - 1)/P)
