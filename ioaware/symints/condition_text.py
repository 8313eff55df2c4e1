"""Conditions of host code as Python writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import sympy

from ioaware.analysis.formulas.printing import show
from ioaware.symints.powers_of_two import BitLength, NextPowerOfTwo
from ioaware.symints.to_sympy import OpaqueExpressionError, plain

_sympy: Any = sympy
SHOWN_AS: Mapping[Any, Any] = {
    BitLength: _sympy.Function("bit_length"),
    NextPowerOfTwo: _sympy.Function("next_power_of_2", positive=True, integer=True),
}
CALLED = {"CeilToInt": "ceil", "FloorToInt": "floor", "TruncToInt": "trunc", "RoundToInt": "round", "RoundDecimal": "round"}
"""Torch's functions by the names of Python."""
PREFIX = re.compile("OpaqueUnaryFn_|BitwiseFn_")
POWERS = ("PowByNatural", "FloatPow")
QUOTIENTS = ("IntTrueDiv", "FloatTrueDiv")
LONGEST_TEXT = 100


@lru_cache(maxsize=4096)
def plain_form(holds: Any) -> Any:
    """Return the condition in sympy's functions; None where it has no such form."""
    try:
        expr = plain(holds, {symbol: symbol for symbol in holds.free_symbols}, SHOWN_AS)
    except OpaqueExpressionError:
        return None
    if isinstance(expr, sympy.Eq) and expr.args[1] == 0:  # 2*(n % 8) == 0, of 2*n % 16
        factor, rest = cast(Any, expr.args[0]).as_coeff_Mul()
        return expr if factor == 1 else _sympy.Eq(rest, 0, evaluate=False)
    return expr


@lru_cache(maxsize=4096)
def condition_text(holds: Any) -> str:
    """Return the condition as Python writes it.

    Of a long one without a plain form, return the parameters.
    """
    expr = plain_form(holds)
    if expr is None:
        called = _as_called(holds)
        said = _relation(called) if called.free_symbols == holds.free_symbols else ""  # sympy may decide or shorten it
        names = ", ".join(sorted(map(str, holds.free_symbols)))
        return said if 0 < len(said) <= LONGEST_TEXT else f"a condition on {names}"
    return _relation(expr)


def _relation(expr: Any) -> str:
    if isinstance(expr, (sympy.Eq, sympy.Ne)):
        expr = _as_multiple(expr)
        left, right = (show(side) for side in cast("tuple[Any, Any]", expr.args))
        return f"{left} {'==' if isinstance(expr, sympy.Eq) else '!='} {right}"
    return show(expr)


def _as_called(expr: Any) -> Any:
    """Return torch's functions of floats as host code calls them.

    An example is `2**ceil(log2(n))`. It is to be read, and not to be evaluated.
    """
    if not expr.args:
        return expr
    args = [_as_called(one) for one in expr.args]
    name = PREFIX.sub("", type(expr).__name__)
    if name == "ToFloat":
        return args[0]
    if name in POWERS:
        return _sympy.Pow(*args, evaluate=False)
    if name in QUOTIENTS:
        return _sympy.Mul(args[0], _sympy.Pow(args[1], -1, evaluate=False), evaluate=False)
    if type(expr) in SHOWN_AS:
        return SHOWN_AS[type(expr)](*args)
    if name == "FloorDiv":
        return _sympy.floor(_sympy.Mul(args[0], _sympy.Pow(args[1], -1, evaluate=False), evaluate=False), evaluate=False)
    if type(expr).__module__.startswith("torch."):
        return _sympy.Function(CALLED.get(name, name))(*args)
    return expr.func(*args)


def _as_multiple(relation: Any) -> Any:
    """Rewrite ceil(n/128) == floor(n/128) as n % 128 == 0."""
    one, other = relation.args
    if {type(one), type(other)} != {sympy.ceiling, sympy.floor} or one.args != other.args:
        return relation
    return relation.func(_sympy.Mod(*_sympy.fraction(one.args[0]), evaluate=False), 0, evaluate=False)
