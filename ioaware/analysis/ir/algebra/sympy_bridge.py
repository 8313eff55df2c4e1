"""Convert between sympy expressions and the engine's polynomials."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, cast

import sympy
from sympy import Expr

from ioaware.analysis.formulas.functions import Holds, Series
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Choice, Extreme, Floor, Poly, Sum, Symbol, Test, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero, choice, is_zero, resolve_tests
from ioaware.errors import UsageError

WANTED = "Formulas have integers, sums, products, powers, floor, ceiling, minimum, maximum and comparisons."

_sympy: Any = sympy
_holds: Any = Holds


def from_sympy(expr: Any) -> Poly:
    """Convert a sympy expression.

    Raises `UsageError` for a function that integer formulas do not have.
    """
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
        case Holds():
            return at_least_zero(*args)
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
            raise UsageError(f"{type(expr).__name__} is not an integer formula: {expr}", WANTED)


def _rounded(expr: Any, *, up: bool) -> Poly:
    numerator, denominator = (from_sympy(part) for part in _sympy.fraction(_sympy.together(expr)))
    return (
        -floor_div(-numerator, denominator)
        if up and denominator.constant is None
        else floor_div(numerator + (denominator - 1 if up else ZERO), denominator)
    )


def from_sympy_truth(condition: Any) -> Poly:
    """Convert a sympy condition to a truth value."""
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
            raise UsageError(f"{type(condition).__name__} is not a condition of an integer formula: {condition}", WANTED)


def always_holds(condition: Any, smallest: int) -> bool:
    """Prove a condition for all integers from `smallest` on; False means not proven.

    Raises `UsageError` for a function that integer formulas do not have.
    """
    truth = from_sympy_truth(condition)
    atoms = [from_sympy(symbol).atom for symbol in condition.free_symbols]
    lifted = {atom.key: poly(Symbol(atom.name, poly(smallest))) for atom in atoms if isinstance(atom, Symbol)}
    return resolve_tests(substitute(truth, lifted)) == ONE


LONGEST_FORMULA = 500_000
"""Characters of a formula beyond which none is written.

Why: sympy takes minutes for it, and it is too long to read. Formulas of other kernels had some thousands at most.
"""


class LongFormulaError(Exception):
    """A formula that is too long to be written."""


def to_sympy(value: Poly) -> Expr:
    """Convert to sympy.

    Parameters keep their sign; a choice is a Piecewise, except inside sums.

    Why: sympy rewrites a sum around a Piecewise.

    Raises `LongFormulaError` for one of more than `LONGEST_FORMULA` characters.
    """
    if len(value.key) > LONGEST_FORMULA:
        raise LongFormulaError
    return _to_sympy(value, inside=False)


def only_where(condition: Poly, value: Poly) -> Expr:
    """Return a formula that has a value only where the condition is 1."""
    found: Any = _sympy.Piecewise((to_sympy(value), _truth(condition)), evaluate=False)
    return found


def _to_sympy(value: Poly, *, inside: bool) -> Expr:
    terms: list[Any] = []
    for factors, coefficient in value.terms.items():
        number = _sympy.Rational(coefficient.numerator, coefficient.denominator)
        terms.append(_sympy.Mul(number, *(_atom_to_sympy(atom, inside) for atom in factors)))
    return cast(Expr, _sympy.Add(*terms))


@lru_cache(maxsize=8192)
def _atom_to_sympy(atom: Atom, inside: bool) -> Any:
    def convert(part: Poly) -> Any:
        return _to_sympy(part, inside=inside)

    match atom:
        case Symbol():
            low = atom.lower.constant if atom.lower is not None and atom.upper is None else None
            if low is None:
                return _sympy.Symbol(atom.name, integer=True)
            sign = {"positive": True} if low > 0 else {"nonnegative": True} if low == 0 else {}
            return _sympy.Symbol(atom.name, integer=True, **sign)
        case Unknown():
            return _sympy.Symbol(atom.name, integer=True)
        case Floor():
            return _floor_to_sympy(atom, inside)
        case Extreme():
            return (_sympy.Min if atom.least else _sympy.Max)(*map(convert, atom.args), evaluate=False)
        case Test():
            found = convert(atom.value)
            return _holds(found) * _holds(-found) if atom.equal else _holds(found)
        case Choice() if inside:
            condition = convert(atom.condition)
            return condition * convert(atom.then) + (1 - condition) * convert(atom.other)
        case Choice():
            condition = _truth(atom.condition)
            if condition in (_sympy.true, _sympy.false):
                return convert(atom.then if condition else atom.other)
            return _sympy.Piecewise((convert(atom.then), condition), (convert(atom.other), True), evaluate=False)
        case Sum():
            body, low, high = (_to_sympy(part, inside=True) for part in (atom.body, atom.low, atom.high - 1))
            return Series(body, (_atom_to_sympy(atom.index, inside), low, high))
        case _:
            raise TypeError(f"no sympy form of {atom!r}")


def _truth(truth: Poly) -> Any:
    """Convert a truth value to a relation: divisibility of lengths, or value >= 1."""
    ((factors, _),) = truth.terms.items() if len(truth.terms) == 1 else (((), 0),)
    divisible = [_divisibility(atom.value) for atom in factors if isinstance(atom, Test) and atom.equal]
    if factors and len(divisible) == len(factors) and all(condition is not None for condition in divisible):
        return _sympy.And(*divisible)
    value: Any = _to_sympy(truth, inside=True)
    return _sympy.Ge(value, 1, evaluate=value.is_Number)  # sympy may already decide it for positive parameters


def _divisibility(value: Poly) -> Any:
    """Return x - d floor(x / d) == 0 as x mod d == 0; None for another equation."""
    for floor in value.atoms:
        rest = floor.numerator - floor.denominator * poly(floor) if isinstance(floor, Floor) else ZERO
        if isinstance(floor, Floor) and value in (rest, -rest):
            remainder = _sympy.Mod(to_sympy(floor.numerator), to_sympy(floor.denominator), evaluate=False)
            return _sympy.Eq(remainder, 0, evaluate=False)
    return None


def _floor_to_sympy(atom: Floor, inside: bool) -> Any:
    """Convert a floor; a numerator of x + d - 1 gives ceiling(x / d)."""
    divisor = atom.denominator.constant
    if divisor is not None and atom.numerator.terms.get((), 0) == divisor - 1:
        return _sympy.ceiling(_over(atom.numerator - (divisor - 1), atom.denominator, inside), evaluate=False)
    above = atom.numerator - atom.denominator + 1
    if divisor is None and len(above.terms) < len(atom.numerator.terms):
        return _sympy.ceiling(_over(above, atom.denominator, inside), evaluate=False)
    return _sympy.floor(_over(atom.numerator, atom.denominator, inside), evaluate=False)


def _over(a: Poly, b: Poly, inside: bool) -> Any:
    return _to_sympy(a, inside=inside) / _to_sympy(b, inside=inside)
