"""Find the leading term of an exact count.

It is the count's limit when every symbol grows at the same rate.

With every symbol times L, a count is L^k h + o(L^k) for L to infinity. k is its degree, and the homogeneous h the leading term.
Roundings of growing terms vanish. A minimum of terms of different growth is the slower one. A sum over a growing range becomes
an integral; over a fixed range it stays a sum. Each step is a limit, not a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import Holds

_sympy: Any = sympy
MAX_NODES = 3000
MAX_ITERATIONS = 2048
LENGTHS = (4352, 3328, 5376, 2304, 6400)
"""Multiples at which a formula for whole sectors and tiles has a value.

The formula is valid only for those.
"""
LARGEST_NEST = 3
UNDECIDED = (_sympy.Min, _sympy.Max, _sympy.Mod, _sympy.Piecewise, Holds)


class NoLeadingTermError(Exception):
    """No leading term; the message is a clause that can follow "no leading term:"."""


@dataclass(frozen=True, slots=True)
class Leading:
    """`term`, or the reason why there is none.

    `where` is the divisibility of lengths that it needs, if any.
    """

    term: Expr | None
    why: str = ""
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class _Order:
    """A term L^degree part + o(L^degree). A part of 0 is the zero term."""

    degree: int
    part: Any


def leading_term(expr: Expr) -> Expr | None:
    """Return the leading term; see `leading`."""
    return leading(expr).term


@lru_cache(maxsize=1024)
def leading(expr: Expr) -> Leading:
    """Return the leading term of a formula.

    It is exact as a limit where every symbol grows at the same rate.

    A formula with a case for aligned lengths gives the leading term of that case.
    """
    whole: Any = expr
    if sum(1 for _ in islice(_sympy.preorder_traversal(whole), MAX_NODES)) == MAX_NODES:
        return Leading(None, "the formula is too long to look for it")
    conditions: list[Any] = [node.args[0][1] for node in whole.atoms(sympy.Piecewise)]
    where = _sympy.And(*conditions) if conditions else None
    if where is not None and not _of_whole_sectors(where):
        return Leading(None, "it differs between the two sides of a condition")
    whole = whole.replace(sympy.Piecewise, _first_value)
    polynomial = _of_polynomial(whole)
    if polynomial is not None:
        return Leading(polynomial, where=where)
    try:
        found = _tidy(_order(whole, {}).part)
        if found == 0:
            return Leading(None, "its highest terms vanish")
        return Leading(found, where=where) if _confirmed(whole, found) else Leading(None, "its highest terms vanish in places")
    except NoLeadingTermError as reason:
        return Leading(None, str(reason))


def _confirmed(expr: Any, term: Any) -> bool:
    """Return whether the term has the formula's size at lengths of some thousands.

    Why: a part may vanish wherever it is summed, which its form does not show.
    """
    if not expr.has(sympy.Sum):
        return True
    sums = [node for node in expr.atoms(sympy.Sum) if len(node.args) > LARGEST_NEST or node.args[0].has(sympy.Sum)]
    if any(sum(len(inner.args) - 1 for inner in node.atoms(sympy.Sum)) >= LARGEST_NEST for node in sums):
        return False
    symbols = sorted(expr.free_symbols, key=str)
    values = {str(symbol): LENGTHS[at % len(LENGTHS)] for at, symbol in enumerate(symbols)}
    expected: Any = term.xreplace({symbol: sympy.Integer(values[str(symbol)]) for symbol in symbols})
    try:
        value = evaluate(expr, values)
    except ValueError:  # these lengths are not multiples of what it is for
        return False
    return bool(value <= 2 * expected and expected <= 2 * value)


def _first_value(case: Any, *_: Any) -> Any:
    return case[0]


def _of_whole_sectors(condition: Any) -> bool:
    """Return whether lengths are multiples of numbers."""
    parts: Any = condition.args if isinstance(condition, sympy.And) else (condition,)
    for part in parts:
        if not isinstance(part, sympy.Eq) or part.args[1] != 0 or not isinstance(part.args[0], sympy.Mod):
            return False
    return True


def _is_data(symbol: Any) -> bool:
    """Return whether it is the name of an unknown.

    Such a name has a source line, and the unknown does not grow with lengths.
    """
    return "@" in str(symbol)


def _of_polynomial(expr: Any) -> Expr | None:
    """Return the order of a polynomial in symbols and their roundings.

    Each rounding is off by less than 1.

    None where terms cancel and roundings contribute as much as the rest.
    """
    smooth = expr
    for rounding in (_sympy.ceiling, _sympy.floor):
        smooth = smooth.replace(rounding, _off_by_one)
    smooth = smooth.doit() if smooth.has(sympy.Sum) and not smooth.has(*UNDECIDED) else smooth
    if smooth.has(sympy.Sum, *UNDECIDED):
        return None
    symbols = sorted((s for s in smooth.free_symbols if not isinstance(s, sympy.Dummy) and not _is_data(s)), key=str)
    if not symbols:
        return None if smooth.free_symbols else expr
    try:
        polynomial = _sympy.Poly(_sympy.expand(smooth), *symbols)
    except _sympy.PolynomialError:
        return None
    degree = polynomial.total_degree()
    terms = [(c, powers) for powers, c in polynomial.terms() if sum(powers) == degree]
    if not all(map(_is_data, (symbol for c, _ in terms for symbol in c.free_symbols))):
        return None
    return _sympy.expand(
        _sympy.Add(*(c * _sympy.prod(s**k for s, k in zip(symbols, powers, strict=True)) for c, powers in terms))
    )


def _off_by_one(x: Any) -> Any:
    return x + _sympy.Dummy("off")


def _order(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    if expr in fixed:
        return fixed[expr]
    if isinstance(expr, sympy.Symbol):
        return _Order(0 if _is_data(expr) else 1, expr)
    if expr.is_Rational:
        return _Order(0, expr)
    rule = next((rule for kind, rule in _RULES.items() if isinstance(expr, kind)), None)
    if rule is None:
        raise NoLeadingTermError(f"no rule for {type(expr).__name__}")
    return rule(expr, fixed)


def _add(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    return _sum([_order(arg, fixed) for arg in expr.args])


def _sum(parts: Sequence[_Order]) -> _Order:
    present = [part for part in parts if part.part != 0]
    if not present:
        return _Order(0, sympy.S.Zero)
    degree = max(part.degree for part in present)
    total = _tidy(_sympy.Add(*(part.part for part in present if part.degree == degree)))
    if total == 0:
        raise NoLeadingTermError("its highest terms cancel")
    return _Order(degree, total)


def _mul(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    parts = [_order(arg, fixed) for arg in expr.args]
    return _Order(sum(part.degree for part in parts), _sympy.Mul(*(part.part for part in parts)))


def _pow(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    base = _order(expr.args[0], fixed)
    if not expr.args[1].is_Integer:
        raise NoLeadingTermError("a power that is not an integer")
    return _Order(base.degree * int(expr.args[1]), base.part ** expr.args[1])


def _rounding(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    inner = _order(expr.args[0], fixed)
    if inner.degree > 0 or inner.part == 0:
        return inner
    up = isinstance(expr, sympy.ceiling)
    if inner.degree < 0:  # next to 0
        if _sign(inner.part) > 0:
            return _Order(0, sympy.Integer(1 if up else 0))
        return _Order(0, sympy.Integer(0 if up else -1))
    if expr.args[0].free_symbols and all(map(_is_data, expr.args[0].free_symbols)):
        return _Order(0, expr)
    if inner.part.is_Integer and not expr.args[0].free_symbols:
        return inner
    if inner.part.is_Rational and not inner.part.is_Integer:
        return _Order(0, (_sympy.ceiling if up else _sympy.floor)(inner.part))
    raise NoLeadingTermError("it rounds a ratio of lengths")


def _extreme(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    """Return the order of a minimum or maximum from its fastest or slowest parts."""
    kind, far = (_sympy.Min, 1) if isinstance(expr, sympy.Min) else (_sympy.Max, -1)
    parts = [_order(arg, fixed) for arg in expr.args]
    while True:
        degree = max((part.degree for part in parts if part.part != 0), default=0)
        fastest = [part for part in parts if part.part != 0 and part.degree == degree]
        slower = [part for part in parts if part not in fastest]
        if not slower or not fastest or not all(_sign_if_known(part.part) == far for part in fastest):
            return _Order(degree, kind(*(part.part for part in fastest), *([sympy.S.Zero] if slower else [])))
        parts = slower


def _sign_if_known(value: Any) -> int:
    try:
        return _sign(value)
    except NoLeadingTermError:
        return 0


def _sign(value: Any) -> int:
    """Return 1 or -1 for positive lengths. Raises where the sign depends on them."""
    if value.is_positive or value.is_nonnegative:
        return 1
    if value.is_negative or value.is_nonpositive:
        return -1
    if all(term.is_positive or term.is_nonnegative for term in _sympy.Add.make_args(_sympy.expand(value))):
        return 1
    raise NoLeadingTermError("it depends on which of two lengths grows faster")


def _mod(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    divisor = _order(expr.args[1], fixed)
    if divisor.degree == 0 and _order(expr.args[0], fixed).degree > 0:
        return _Order(0, _sympy.Dummy("remainder", nonnegative=True))
    raise NoLeadingTermError("it takes the remainder of a ratio of lengths")


def _holds(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    inner = _order(expr.args[0], fixed)
    if inner.degree > 0:
        try:
            return _Order(0, sympy.Integer(int(_sign(inner.part) > 0)))
        except NoLeadingTermError:
            return _Order(0, Holds(inner.part))
    return _Order(0, Holds(inner.part))


def _series(expr: Any, fixed: Mapping[Any, _Order]) -> _Order:
    body, *limits = expr.args
    return _over(body, limits, fixed)


def _over(body: Any, limits: Sequence[Any], fixed: Mapping[Any, _Order]) -> _Order:
    """Return the sum over the indices of these limits, outermost last."""
    if not limits:
        return _order(body, fixed)
    *inside, (index, low, high) = limits
    first, count = _order(low, fixed), _order(high - low + 1, fixed)
    if count.degree <= 0:
        if first.degree > 0 or not count.part.is_Integer or not first.part.is_Integer or count.part > MAX_ITERATIONS:
            raise NoLeadingTermError("a sum over a range that does not grow has no number of terms")
        turns = range(int(first.part), int(first.part + count.part))
        return _sum([_over(body, inside, {**fixed, index: _Order(0, sympy.Integer(turn))}) for turn in turns])
    place = _sympy.Symbol(f"{index}'", nonnegative=True)
    inner = _over(body, inside, {**fixed, index: _Order(1, place)})
    start = first.part if first.degree == 1 else sympy.S.Zero
    if count.degree != 1 or first.degree > 1:
        raise NoLeadingTermError("a sum over a range that grows faster than the lengths")
    return _Order(inner.degree + 1, _integral(inner.part, place, start, start + count.part))


def _integral(body: Any, place: Any, low: Any, high: Any) -> Any:
    """Integrate a polynomial, or minima and maxima of linear functions.

    These are cut where they cross.
    """
    body = _sympy.expand(body)
    corners = [node for node in body.atoms(sympy.Min, sympy.Max) if node.has(place)]
    corner = min(corners, key=lambda node: (node.count_ops(), str(node)), default=None)  # what is inside of others first
    if corner is None:
        if not body.is_polynomial(place):
            raise NoLeadingTermError("a sum of terms that are not polynomials in the index")
        return _sympy.expand(_sympy.integrate(body, (place, low, high)))
    one, other, *more = corner.args
    difference = _sympy.expand(one - other)
    slope = difference.coeff(place)
    if more or difference.has(_sympy.Min, _sympy.Max) or slope.has(place) or not slope.is_number or slope == 0:
        raise NoLeadingTermError("a sum of minima that cross in several ways")
    cut = _sympy.Min(_sympy.Max(-(difference - slope * place) / slope, low), high)
    early, late = (one, other) if (slope > 0) == isinstance(corner, sympy.Min) else (other, one)
    before = _integral(body.xreplace({corner: early}), place, low, cut)
    return before + _integral(body.xreplace({corner: late}), place, cut, high)


def _tidy(value: Any) -> Any:
    """Expand; raise where a bounded term such as a remainder is left."""
    found = _sympy.expand(value.replace(sympy.Min, _least).replace(sympy.Max, _greatest))
    if found.atoms(_sympy.Dummy):
        raise NoLeadingTermError("a remainder is all that is left")
    return found


def _least(*args: Any) -> Any:
    return _without_common_factor(_sympy.Min, args)


def _greatest(*args: Any) -> Any:
    return _without_common_factor(_sympy.Max, args)


def _without_common_factor(kind: Any, args: Sequence[Any]) -> Any:
    """Return min(K/64, N/64) as min(K, N)/64."""
    divisors = [_sympy.fraction(_sympy.together(arg))[1] for arg in args]
    if not all(divisor.is_Integer for divisor in divisors):
        return kind(*args)
    common = _sympy.ilcm(*divisors)
    return kind(*(_sympy.expand(arg * common) for arg in args)) / common


_RULES: Mapping[Any, Callable[[Any, Mapping[Any, _Order]], _Order]] = {
    sympy.Add: _add,
    sympy.Mul: _mul,
    sympy.Pow: _pow,
    sympy.ceiling: _rounding,
    sympy.floor: _rounding,
    sympy.Min: _extreme,
    sympy.Max: _extreme,
    sympy.Mod: _mod,
    Holds: _holds,
    sympy.Sum: _series,
}
