"""Show that a map has infinite rank.

It has a singularity, or an exponent, that moves with a parameter.

Let f(., t) be singular at xi(t) and analytic near xi(t') for every other t' near t. Then f(., t_1) ... f(., t_n) are linearly
independent for all n: in a relation between them, all terms but one are analytic at xi(t_1). The singularity may be complex, as
softplus(x - t) has it at t + i pi. A kink or jump must lie at a real element, with data on both sides of it. As functions of t,
sums over different elements then have their kinks at different places. Exponentials of polynomials with nonconstant differences
are linearly independent over the rational functions, which covers exp(x / t). The rules use one coordinate x, at data where
everything else is known. Cases without a rule are undecided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.algebra import is_zero, tidy
from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.elementwise import Rint, with_absolute_values
from ioaware.analysis.fusion.expressions.formula_text import formula
from ioaware.analysis.fusion.expressions.interval_arithmetic import UndecidedError, has_zero
from ioaware.analysis.fusion.refutation.complex_zeros import Scope, zeros
from ioaware.analysis.fusion.refutation.samples import NUMBERS

_sympy: Any = sympy
HIGHEST_POWER = 6
HIGHEST_ORDER = 3
"""Derivatives of the coefficient of a kink that are looked at."""
ONE = _sympy.Integer(1)


@dataclass(frozen=True, slots=True)
class Moving:
    """Description of a moving part.

    For a kink or jump also what must cross 0 (half an integer), and be nonzero or positive there.
    """

    argument: str
    crossing: Any | None = None
    nonzero: Any | None = None
    is_jump: bool = False
    positive: tuple[Any, ...] = ()


def moving_parts(body: Any, x: Any, parameters: Sequence[Any], scope: Scope) -> Iterator[Moving]:
    """Yield parts proven to move with a parameter at the data of `scope`.

    Crossings are left to the caller.
    """
    smooth = with_absolute_values(body)
    joint = _joint_atoms(smooth, x, parameters)
    for atom in joint:
        find = _kinks if isinstance(atom, (_sympy.Abs, Rint)) else _complex_singularities
        yield from find(smooth, atom, x, parameters, scope)
    if not joint and (found := _moving_exponent(smooth, x, parameters, scope)):
        yield found


def is_analytic(body: Any) -> bool:
    """Return whether a map is analytic at all real elements and parameters.

    The arguments of its singular functions are then > 0.
    """
    smooth = with_absolute_values(body)
    return all(node.args[0].is_positive for node in _sympy.preorder_traversal(smooth) if _is_singular(node))


def _is_singular(node: Any) -> bool:
    return isinstance(node, (_sympy.log, _sympy.Abs, Rint)) or (node.is_Pow and not (node.exp.is_Integer and node.exp > 0))


def _joint_atoms(expr: Any, x: Any, parameters: Sequence[Any]) -> list[Any]:
    """Return the singular functions of arguments with both x and a parameter.

    The arguments depend on both.
    """
    used = [node for node in _sympy.preorder_traversal(expr) if _is_singular(node) and x in node.args[0].free_symbols]
    return list(dict.fromkeys(node for node in used if node.args[0].free_symbols & set(parameters)))


def _complex_singularities(body: Any, atom: Any, x: Any, parameters: Sequence[Any], scope: Scope) -> Iterator[Moving]:
    with suppress(UndecidedError):
        if found := _complex_singularity(body, atom, x, parameters, scope):
            yield found


def _complex_singularity(body: Any, atom: Any, x: Any, parameters: Sequence[Any], scope: Scope) -> Moving | None:
    """Return the pole or branch point of one function in the map.

    It is returned if nothing else there can cancel it.
    """
    argument = atom.args[0]
    coefficient = _leading_coefficient(body, atom)
    if any(
        _is_singular(node) and not _is_pole(node) and x in node.free_symbols for node in _sympy.preorder_traversal(coefficient)
    ):
        raise UndecidedError("the coefficient of a singular function has branches itself")
    others = [other for other in _joint_atoms(body, x, parameters) if other != atom]
    powers = [other for other in others if other.args[0] == argument and _is_pole(other) and _is_pole(atom)]
    apart = [other.args[0] for other in others if other not in powers]
    for zero in zeros(argument, x):
        values = {**scope, x: zero.place(scope)}
        moves = [t for t in parameters if _is_nonzero(_sympy.diff(argument, t), values)]
        simple = moves and _is_nonzero(_sympy.diff(argument, x), values)
        if simple and all(_is_nonzero(part, values) for part in (coefficient, *apart)):
            kind = "pole" if _is_pole(atom) else "branch point"
            return Moving(f"{formula(atom)} has a {kind} at {x.name} = {zero.sentence()}, which moves with {moves[0].name}")
    return None


def _is_pole(node: Any) -> bool:
    return bool(node.is_Pow and node.exp.is_Integer and node.exp < 0)


def _leading_coefficient(body: Any, atom: Any) -> Any:
    """Return the coefficient of the highest power of a singular function.

    The map must be a polynomial in that function.
    """
    mark = _sympy.Dummy("singular")
    replacements = {atom: mark}
    if atom.is_Pow:
        if atom.exp.q > 2:
            raise UndecidedError("a root other than a square root")
        unit = -ONE if atom.exp.is_Integer else atom.exp
        replacements = {atom.base ** (unit * power): mark**power for power in range(1, HIGHEST_POWER + 1)}
    replaced = body.xreplace(replacements)
    polynomial = _sympy.Poly(_sympy.expand(replaced), mark) if replaced.is_polynomial(mark) else None
    if polynomial is None or polynomial.degree() < 1:
        raise UndecidedError("the map is not a polynomial in a singular function")
    if atom.is_Pow and not atom.exp.is_Integer and polynomial.degree() > 1:
        raise UndecidedError("the map has higher powers of a root")
    return polynomial.LC()


def _is_nonzero(expr: Any, values: Scope) -> bool:
    return not has_zero(evaluate(expr, values, NUMBERS))


def _kinks(body: Any, atom: Any, x: Any, parameters: Sequence[Any], scope: Scope) -> Iterator[Moving]:  # noqa: ARG001
    """Yield the kink or jump of one function.

    It is sought in the map as it is, then where |v| is v or -v for each other v without a kink of its own.
    """
    around = [node for node in _joint_atoms(body, x, parameters) if isinstance(node, _sympy.Abs) and node != atom]
    around = [node for node in around if not node.args[0].has(_sympy.Abs, Rint)]
    for signs in dict.fromkeys(((), *product((1, -1), repeat=len(around)))):
        positive = {node: sign * node.args[0] for node, sign in zip(around, signs, strict=False)}
        inside = type(atom)(atom.args[0].xreplace(positive))
        with suppress(UndecidedError):
            if isinstance(inside, type(atom)) and (found := _kink(body.xreplace(positive), inside, x, parameters)):
                yield replace(found, positive=tuple(positive.values()))


def _kink(body: Any, atom: Any, x: Any, parameters: Sequence[Any]) -> Moving | None:
    """Return the kink of |u| where u is 0, or a jump of round(u).

    u is affine in x and nothing else is singular in both. A coefficient that is 0 there gives a kink of a derivative.
    """
    argument = atom.args[0]
    jumps = isinstance(atom, Rint)
    slope = tidy(_sympy.diff(argument, x))
    mark = _sympy.Dummy("kink", real=True)
    coefficient, rest = _odd_and_even(body.xreplace({atom: mark}), mark, argument, jumps=jumps)
    others = _kinks_apart(rest, x, parameters)
    parts = (argument, coefficient, rest.xreplace(dict.fromkeys(others, _sympy.Integer(0))))
    moving = {node for part in parts for node in part.atoms(_sympy.Abs, Rint) if node.free_symbols & set(parameters)}
    steady = {node for node in moving if x not in node.free_symbols and not node.has(Rint)}  # smooth in t where not 0
    bent = moving - steady
    if slope.has(x) or bent or any(_joint_atoms(part, x, parameters) for part in parts):
        raise UndecidedError("a kink is not alone in the map, or its argument not affine in an element")
    moves = [t for t in parameters if not is_zero(_sympy.diff(argument, t))]
    at_kink = {x: x - argument / slope} if moves and slope != 0 else {}
    orders = (_sympy.diff(coefficient, x, order) for order in range(1 if jumps else HIGHEST_ORDER))
    leading = next((part for part in orders if at_kink and not is_zero(part.xreplace(at_kink))), None)
    if leading is None:
        return None
    kind = f"a jump where {formula(argument)} is half an odd integer" if jumps else f"a kink where {formula(argument)} = 0"
    nonzero = _sympy.Mul(slope, leading, _sympy.diff(argument, moves[0]), *(other.args[0] for other in (*others, *steady)))
    return Moving(f"{formula(atom)} has {kind}, which moves with {moves[0].name}", argument, nonzero, jumps)


def _odd_and_even(marked: Any, mark: Any, argument: Any, *, jumps: bool) -> tuple[Any, Any]:
    """Return the coefficient of |u| in a polynomial, and the rest, by |u|^2 = u^2."""
    if not marked.is_polynomial(mark):
        raise UndecidedError("the map is not a polynomial in a function with a kink")
    powers = {power: factor for (power,), factor in _sympy.Poly(_sympy.expand(marked), mark).terms()}
    if jumps and max(powers) > 1:
        raise UndecidedError("the map has higher powers of a jump")
    odd = [factor * argument ** (power - 1) for power, factor in powers.items() if power % 2]
    even = [factor * argument**power for power, factor in powers.items() if power % 2 == 0]
    return tidy(_sympy.Add(*odd)), _sympy.Add(*even)


def _kinks_apart(rest: Any, x: Any, parameters: Sequence[Any]) -> list[Any]:
    """Return the other |u| of a map, u smooth: it has no kink where u is not 0."""
    found = [node for node in rest.atoms(_sympy.Abs) if x in node.free_symbols and node.free_symbols & set(parameters)]
    return [node for node in found if not node.args[0].has(_sympy.Abs, Rint) and node.args[0].is_polynomial(x)]


def _moving_exponent(body: Any, x: Any, parameters: Sequence[Any], scope: Scope) -> Moving | None:
    """Return an exponential of a polynomial in x with moving coefficients.

    It stands in a sum of such with rational coefficients.
    """
    terms = _exponential_sum(body, x)
    for exponent, coefficient in terms.items():
        apart = [_sympy.diff(exponent - other, x) for other in terms if other != exponent]
        rates = [rate for (power,), rate in _sympy.Poly(exponent, x).terms() if power]
        moves = [t for t in parameters for rate in rates if _is_decided(_sympy.diff(rate, t), scope)]
        if moves and all(_is_decided(part, scope) for part in (coefficient, *apart)):
            return Moving(f"exp({formula(exponent)}) has an exponent that moves with {moves[0].name}")
    return None


def _is_decided(expr: Any, scope: Scope) -> bool:
    """Return whether an expression is proven nonzero."""
    try:
        return _is_nonzero(expr, scope)
    except UndecidedError:
        return False


def _exponential_sum(body: Any, x: Any) -> dict[Any, Any]:
    """Return the coefficient of exp(q) for each polynomial q in x.

    Empty if the map is not such a sum.
    """
    terms: dict[Any, Any] = {}
    for term in _sympy.Add.make_args(_sympy.expand(body, power_exp=False)):
        exponent, coefficient = _sympy.Integer(0), ONE
        for factor in _sympy.Mul.make_args(_sympy.powsimp(term, combine="exp")):
            if isinstance(factor, _sympy.exp) and x in factor.free_symbols:
                exponent += factor.args[0]
            else:
                coefficient *= factor
        if not coefficient.is_rational_function(x) or not exponent.is_polynomial(x):
            return {}
        key = next((other for other in terms if is_zero(_sympy.diff(other - exponent, x))), exponent)
        terms[key] = terms.get(key, _sympy.Integer(0)) + coefficient * _sympy.exp(exponent - key)
    return terms
