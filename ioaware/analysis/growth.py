"""The leading term of an exact count: what is left of it when every symbol grows, roundings and lower orders dropped."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.integers import Holds

_sympy: Any = sympy
UNDECIDED = (_sympy.Min, _sympy.Max, _sympy.Mod, _sympy.Piecewise, Holds)


@lru_cache(maxsize=1024)
def leading_term(expr: Expr) -> Expr | None:
    """The terms of the highest degree in all symbols together, `ceil(x)` and `floor(x)` taken for x.

    Exact as a limit where every symbol grows at the same rate. None where a minimum, maximum, remainder or unevaluated sum is
    left: it would depend on which of its sides grows.
    """
    smooth: Any = expr
    for rounding in (_sympy.ceiling, _sympy.floor):
        smooth = smooth.replace(rounding, lambda x: x)  # pyright: ignore[reportUnknownLambdaType]
    if smooth.has(*UNDECIDED):
        return None
    smooth = _sympy.expand(smooth.doit() if smooth.has(sympy.Sum) else smooth)
    symbols = sorted(smooth.free_symbols, key=str)
    if not symbols:
        return smooth
    try:
        polynomial = _sympy.Poly(smooth, *symbols)
    except _sympy.PolynomialError:
        return None
    degree = polynomial.total_degree()
    terms = (
        c * _sympy.prod(s**k for s, k in zip(symbols, powers, strict=True))
        for powers, c in polynomial.terms()
        if sum(powers) == degree
    )
    return _sympy.Add(*terms)
