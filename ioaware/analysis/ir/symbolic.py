"""Between sympy, which formulas are exchanged in, and the engine's polynomials."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from typing import Any, cast

import sympy
from sympy import Expr

from ioaware.analysis.ir.build import at_least_zero, choice, floor_div, greatest, is_zero, least, mod
from ioaware.analysis.ir.poly import ONE, ZERO, Atom, Choice, Extreme, Floor, Poly, Sum, Symbol, Test, Unknown, poly
from ioaware.errors import UsageError

_sympy: Any = sympy


def from_sympy(expr: Any) -> Poly:
    """Raises `UsageError` for a function that integer formulas do not have."""
    expr = _sympy.sympify(expr) if isinstance(expr, (int, bool)) else expr
    whole = not isinstance(expr, (_sympy.Piecewise, _sympy.floor, _sympy.ceiling, _sympy.Pow))
    args = tuple(from_sympy(arg) for arg in expr.args) if whole else ()
    match expr:
        case sympy.Symbol():
            return poly(Symbol(str(expr), ONE if expr.is_positive else ZERO if expr.is_nonnegative else None))
        case sympy.Integer():
            return poly(int(expr))
        case sympy.Rational():
            return poly(Fraction(int(expr.p), int(expr.q)))  # pyright: ignore
        case sympy.Add():
            return reduce(lambda a, b: a + b, args)
        case sympy.Mul():
            return reduce(lambda a, b: a * b, args)
        case sympy.Max():
            return greatest(*args)
        case sympy.Min():
            return least(*args)
        case sympy.Mod():
            return mod(*args)
        case sympy.Pow() if expr.exp.is_Integer and expr.exp > 0:
            return reduce(lambda a, b: a * b, [from_sympy(expr.base)] * int(expr.exp))
        case sympy.floor():
            return _rounded(expr.args[0], up=False)
        case sympy.ceiling():
            return _rounded(expr.args[0], up=True)
        case sympy.Piecewise():
            result = ZERO
            for value, condition in reversed(expr.args):  # pyright: ignore
                result = choice(from_sympy_truth(condition), from_sympy(value), result)
            return result
        case _:
            raise UsageError(f"{type(expr).__name__} is not an integer formula: {expr}")


def _rounded(expr: Any, *, up: bool) -> Poly:
    numerator, denominator = (from_sympy(part) for part in _sympy.fraction(_sympy.together(expr)))
    return (
        -floor_div(-numerator, denominator)
        if up and denominator.constant is None
        else floor_div(numerator + (denominator - 1 if up else ZERO), denominator)
    )


def from_sympy_truth(condition: Any) -> Poly:
    """A sympy condition as a truth value."""
    if condition in (_sympy.true, True):
        return ONE
    if condition in (_sympy.false, False):
        return ZERO
    if isinstance(condition, sympy.And):
        return reduce(lambda a, b: a * b, map(from_sympy_truth, condition.args))
    if isinstance(condition, sympy.Or):
        return 1 - reduce(lambda a, b: a * b, (1 - from_sympy_truth(arg) for arg in condition.args))
    if isinstance(condition, sympy.Not):
        return 1 - from_sympy_truth(condition.args[0])
    left, right = map(from_sympy, condition.args)
    match condition:
        case sympy.Eq():
            return is_zero(left - right)
        case sympy.Ne():
            return 1 - is_zero(left - right)
        case sympy.Lt():
            return at_least_zero(right - left - 1)
        case sympy.Le():
            return at_least_zero(right - left)
        case sympy.Gt():
            return at_least_zero(left - right - 1)
        case sympy.Ge():
            return at_least_zero(left - right)
        case _:
            raise UsageError(f"{type(condition).__name__} is not a condition of an integer formula: {condition}")


def to_sympy(value: Poly) -> Expr:
    """Symbols become positive, nonnegative or plain integers, as their lower bounds say."""
    cache: dict[Atom, Any] = {}

    def of_atom(atom: Atom) -> Any:
        if atom not in cache:
            cache[atom] = _atom_to_sympy(atom)
        return cache[atom]

    terms: list[Any] = []
    for factors, coefficient in value.terms.items():
        number = _sympy.Rational(coefficient.numerator, coefficient.denominator)
        terms.append(_sympy.Mul(number, *(of_atom(atom) for atom in factors)))
    return cast(Expr, _sympy.Add(*terms))


def _atom_to_sympy(atom: Atom) -> Any:
    match atom:
        case Symbol():
            low = atom.lower.constant if atom.lower is not None else None
            if low is None and atom.lower is not None:
                low = 0 if atom.upper is not None else None
            if low is not None and low > 0:
                return _sympy.Symbol(atom.name, integer=True, positive=True)
            return (
                _sympy.Symbol(atom.name, integer=True, nonnegative=True) if low == 0 else _sympy.Symbol(atom.name, integer=True)
            )
        case Unknown():
            return _sympy.Symbol(atom.name, integer=True)
        case Floor():
            return _floor_to_sympy(atom)
        case Extreme():
            args = [to_sympy(arg) for arg in atom.args]
            return (_sympy.Min if atom.least else _sympy.Max)(*args, evaluate=False)
        case Test():
            return _sympy.Piecewise((1, truth_to_sympy(poly(atom))), (0, True), evaluate=False)
        case Choice():
            condition = truth_to_sympy(atom.condition)
            return _sympy.Piecewise((to_sympy(atom.then), condition), (to_sympy(atom.other), True), evaluate=False)
        case Sum():
            index = of_index(atom.index)
            return _sympy.Sum(to_sympy(atom.body), (index, to_sympy(atom.low), to_sympy(atom.high - 1)))
        case _:
            raise TypeError(f"no sympy form of {atom!r}")


def of_index(index: Symbol) -> Any:
    """The symbol of a sum's index."""
    return _atom_to_sympy(index)


def truth_to_sympy(truth: Poly) -> Any:
    """A condition; a combination of tests that is no single one asks whether its value is not 0."""
    atom = truth.atom
    if isinstance(atom, Test):
        positive = Poly({m: c for m, c in atom.value.terms.items() if c > 0})
        negative = -Poly({m: c for m, c in atom.value.terms.items() if c < 0})
        relation = _sympy.Eq if atom.equal else _sympy.Ge
        return relation(to_sympy(positive), to_sympy(negative), evaluate=False)
    return _sympy.Ne(to_sympy(truth), 0, evaluate=False)


def _floor_to_sympy(atom: Floor) -> Any:
    """ceiling(x / d) where the numerator is x + d - 1."""
    divisor = atom.denominator.constant
    if divisor is not None and atom.numerator.terms.get((), 0) == divisor - 1:
        return _sympy.ceiling(_over(atom.numerator - (divisor - 1), atom.denominator), evaluate=False)
    above = atom.numerator - atom.denominator + 1
    if divisor is None and len(above.terms) < len(atom.numerator.terms):
        return _sympy.ceiling(_over(above, atom.denominator), evaluate=False)
    return _sympy.floor(_over(atom.numerator, atom.denominator), evaluate=False)


def _over(a: Poly, b: Poly) -> Any:
    return to_sympy(a) / to_sympy(b)
