"""Construct floors, minima, tests and choices in their normal form.

Later rules expect this form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd

from ioaware.analysis.ir.algebra.division import divide, divide_by_constant
from ioaware.analysis.ir.algebra.poly import (
    ONE,
    ZERO,
    Atom,
    Choice,
    Extreme,
    Floor,
    Poly,
    Sum,
    Symbol,
    Test,
    Unknown,
    poly,
    total,
)
from ioaware.analysis.ir.algebra.predicates import at_least_zero, choice, is_zero, resolve_tests
from ioaware.analysis.ir.algebra.prover import nonnegative, positive

PATIENT = 7  # depth of the proof of a sign that many later rules depend on


def floor_div(a: Poly, b: Poly) -> Poly:
    """Return floor(a / b), b not 0."""
    divisor = b.constant
    if divisor is not None:
        return _floor_by_constant(a, int(divisor))
    quotient, rest = divide(a, b)
    if not rest.terms:
        return quotient
    shared = _floor_by_symbols(a, b)
    if shared is not None:
        return shared
    if positive(b) and nonnegative(rest, PATIENT):
        if nonnegative(b - rest - 1, PATIENT):
            return quotient
        one = _floor_of_distributed(rest, b)
        if one is not None:
            return quotient + one
    return quotient + _floor(rest, b)


def _floor_by_symbols(a: Poly, b: Poly) -> Poly | None:
    """Return floor((c x + r) / (c k)) as floor(x / k) for r in 0 .. c - 1.

    For r in -c .. -1 as floor((x - 1) / k).
    """
    if len(b.terms) != 1:
        return None
    ((factors, scale),) = b.terms.items()
    if scale == 1:
        return None
    symbols = Poly({factors: 1})
    quotient, rest = divide(a, symbols)
    if not quotient.terms or not positive(symbols):
        return None
    if nonnegative(rest) and nonnegative(symbols - rest - 1):
        return floor_div(quotient, poly(scale))
    if nonnegative(-rest - 1) and nonnegative(rest + symbols):
        return floor_div(quotient - 1, poly(scale))
    return None


def _floor(numerator: Poly, denominator: Poly) -> Poly:
    """Return the atom, or its negated form where that has fewer minus signs.

    The negated form of floor(-x/d) is -floor((x + d - 1)/d).
    """
    signs = sum(1 if c > 0 else -1 for factors, c in numerator.terms.items() if factors)
    if (signs < 0 or (signs == 0 and _leads_negative(numerator))) and not nonnegative(numerator):
        whole = all(isinstance(c, int) for c in numerator.terms.values())
        if whole and (denominator.constant is not None or positive(denominator)):
            return (
                -floor_div(denominator - 1 - numerator, denominator)
                if denominator.constant is None
                else -poly(Floor(denominator - 1 - numerator, denominator))
            )
    return poly(Floor(numerator, denominator))


def _leads_negative(value: Poly) -> bool:
    first = min((m for m in value.terms if m), key=lambda m: tuple(atom.key for atom in m), default=())
    return value.terms.get(first, 0) < 0


def _floor_by_constant(a: Poly, b: int) -> Poly:
    if b < 0:
        a, b = -a, -b
    if b == 1:
        return a
    parts = divide_by_constant(a, b)
    if parts is None:
        return _floor(a, poly(b))
    quotient, rest = parts
    if not any(rest.terms):
        return quotient  # the rest is a constant between 0 and b
    return quotient + _floor_of_rest(rest, b)


def _floor_of_rest(rest: Poly, b: int) -> Poly:
    common = gcd(b, *(int(c) for monomial, c in rest.terms.items() if monomial))
    if common > 1:
        rest = Poly({m: (c // common) for m, c in rest.terms.items() if m or c // common})
        return _floor_by_constant(rest, b // common)
    if nonnegative(rest) and nonnegative(b - 1 - rest):
        return ZERO
    for step in sorted({gcd(b, int(c)) for monomial, c in rest.terms.items() if monomial} - {1}, reverse=True):
        # floor((g x + r) / (g k)) is floor(x / k) for a rest r of 0 .. g - 1
        whole = Poly({m: c // step for m, c in rest.terms.items() if c % step == 0})
        left = Poly({m: c for m, c in rest.terms.items() if c % step})
        if left.terms and nonnegative(left) and nonnegative(step - 1 - left):
            return _floor_by_constant(whole, b // step)
    one = _floor_of_distributed(rest, poly(b))
    return one if one is not None else _floor(rest, poly(b))


def _floor_of_distributed(rest: Poly, b: Poly) -> Poly | None:
    """Distribute a floor over a minimum, maximum or choice; merge a floor of a floor."""
    for monomial, coefficient in rest.terms.items():
        if len(monomial) != 1 or coefficient != 1:
            continue
        atom, others = monomial[0], Poly({m: c for m, c in rest.terms.items() if m != monomial})
        if isinstance(atom, Extreme):
            return _extreme(atom.least, [floor_div(arg + others, b) for arg in atom.args])
        if isinstance(atom, Choice):
            return choice(atom.condition, floor_div(atom.then + others, b), floor_div(atom.other + others, b))
        if isinstance(atom, Floor) and b.constant is not None and (atom.denominator.constant or 0) > 0:
            return floor_div(atom.numerator + others * atom.denominator, b * atom.denominator)
    return None


def mod(a: Poly, b: Poly) -> Poly:
    """Return a - b floor(a / b)."""
    return a - b * floor_div(a, b)


def truncated_div(a: Poly, b: Poly) -> Poly:
    """Return a / b rounded towards zero, as C and the IR define it.

    Why long proofs of the signs: without them the result is a choice.
    """
    if nonnegative(b, PATIENT):
        if nonnegative(a, PATIENT):
            return floor_div(a, b)
        if nonnegative(-a, PATIENT):
            return -floor_div(-a, b)
        return choice(at_least_zero(a), floor_div(a, b), -floor_div(-a, b))
    if nonnegative(-b, PATIENT):
        return -truncated_div(a, -b)
    return choice(
        at_least_zero(b),
        choice(at_least_zero(a), floor_div(a, b), -floor_div(-a, b)),
        -choice(at_least_zero(a), floor_div(a, -b), -floor_div(-a, -b)),
    )


def least(*args: Poly) -> Poly:
    """Return the minimum."""
    return _extreme(True, args)


def greatest(*args: Poly) -> Poly:
    """Return the maximum."""
    return _extreme(False, args)


def _extreme(is_least: bool, args: Iterable[Poly]) -> Poly:
    """Return the minimum or maximum without redundant arguments."""
    flat: dict[Poly, None] = {}
    for arg in args:
        flat.update(dict.fromkeys(_flattened(_absorbed(arg), is_least)))
    if not is_least and ZERO in flat:
        flat = dict.fromkeys(map(_clipped_once, flat))
    common = _common_factor(flat) * (common_coefficient(flat) if ZERO in flat else 1)
    if common.terms != ONE.terms:
        return common * _extreme(is_least, [divide(arg, common)[0] for arg in flat])
    kept: list[Poly] = []
    for arg in flat:
        if any(_beats(other, arg, is_least) for other in kept):
            continue
        kept = [other for other in kept if not _beats(arg, other, is_least)]
        kept.append(arg)
    if len(kept) == 1:
        return kept[0]
    return (_clipped(kept) if is_least else None) or poly(Extreme(is_least, kept))


def _clipped(args: Sequence[Poly]) -> Poly | None:
    """Return min(c max(0, a), b) as max(0, min(c a, b)) for b >= 0.

    This is the form that tile sums recognise.
    """
    for at, arg in enumerate(args):
        ((factors, scale),) = arg.terms.items() if len(arg.terms) == 1 else (((), 0),)
        atom = factors[0] if len(factors) == 1 and scale > 0 else None
        others = [other for k, other in enumerate(args) if k != at]
        if isinstance(atom, Extreme) and not atom.least and ZERO in atom.args and all(map(nonnegative, others)):
            inner = greatest(*(other for other in atom.args if other != ZERO))
            return greatest(ZERO, least(inner * scale, *others))
    return None


def _clipped_once(arg: Poly) -> Poly:
    """Return min(c max(0, a), b) as min(c a, b), c > 0, inside a maximum that holds 0."""
    atom = arg.atom
    if not isinstance(atom, Extreme) or not atom.least:
        return arg
    inner: list[Poly] = []
    for each in atom.args:
        ((factors, scale),) = each.terms.items() if len(each.terms) == 1 else (((), 0),)
        clip = factors[0] if len(factors) == 1 and scale > 0 else None
        if isinstance(clip, Extreme) and not clip.least and ZERO in clip.args:
            each = greatest(*(other for other in clip.args if other != ZERO)) * scale
        inner.append(each)
    return arg if inner == list(atom.args) else least(*inner)


def _absorbed(arg: Poly) -> Poly:
    """Return min(a, b) + x as min(a + x, b + x) for part of x.

    This is the part of x that an argument cancels.
    """
    for factors, coefficient in arg.terms.items():
        atom = factors[0] if len(factors) == 1 else None
        if not isinstance(atom, Extreme) or coefficient != 1:
            continue
        shared = {m: c for m, c in arg.terms.items() if m and any(inner.terms.get(m) == -c for inner in atom.args)}
        if shared:
            rest = Poly({m: c for m, c in arg.terms.items() if m != factors and m not in shared})
            return _extreme(atom.least, [inner + Poly(shared) for inner in atom.args]) + rest
    return arg


def _flattened(arg: Poly, is_least: bool) -> list[Poly]:
    """Return c min(a, b) + x inside a minimum, c > 0, as two arguments.

    They are c a + x and c b + x.
    """
    for factors, coefficient in arg.terms.items():
        atom = factors[0] if len(factors) == 1 else None
        if isinstance(atom, Extreme) and atom.least == is_least and coefficient > 0:
            rest = Poly({m: c for m, c in arg.terms.items() if m != factors})
            if not any(atom in m for m in rest.terms):
                return [flat for inner in atom.args for flat in _flattened(inner * coefficient + rest, is_least)]
    return [arg]


def _common_factor(args: Iterable[Poly]) -> Poly:
    """Return the non-negative symbols that divide every term of every argument."""
    monomials = [factors for arg in args if arg.terms for factors in arg.terms]
    shared: list[Atom] = []
    for atom in dict.fromkeys(monomials[0] if len(monomials) > 1 else ()):
        if all(atom in factors for factors in monomials) and nonnegative(poly(atom)):
            shared.append(atom)
    return Poly({tuple(shared): 1})


def common_coefficient(args: Iterable[Poly]) -> int:
    """Return the greatest common divisor of all coefficients."""
    coefficients = [c for arg in args for c in arg.terms.values()]
    return gcd(*(c if isinstance(c, int) else 1 for c in coefficients)) if coefficients else 1


def _beats(a: Poly, b: Poly, is_least: bool) -> bool:
    return nonnegative(b - a if is_least else a - b)


def substitute(value: Poly, by: Mapping[str, Poly]) -> Poly:
    """Replace the symbols of these keys and rebuild the expression.

    It is rebuilt by the constructors above.
    """

    def leaf(atom: Atom) -> Poly | None:
        if isinstance(atom, Unknown):
            return poly(atom.at(substitute(arg, by) for arg in atom.args))
        return by.get(atom.key) if isinstance(atom, Symbol) else None

    return rebuild(value, leaf, frozenset(by))


def rebuild(value: Poly, leaf: Callable[[Atom], Poly | None], free: frozenset[str] | None = None) -> Poly:
    """Replace every atom for which `leaf` returns a value.

    Leave atoms without the symbols `free` as they are.
    """
    return _rebuild(value, leaf, free, {})


def _rebuild(value: Poly, leaf: Callable[[Atom], Poly | None], free: frozenset[str] | None, done: dict[Atom, Poly]) -> Poly:
    """Rebuild as `rebuild` does, each atom once."""
    if free is not None and value.free.isdisjoint(free):
        return value
    result = list[Poly]()
    for monomial, coefficient in value.terms.items():
        term = poly(coefficient)
        for atom in monomial:
            found = done.get(atom)
            if found is None:
                still = free is not None and atom.free.isdisjoint(free)
                found = done[atom] = poly(atom) if still else _rebuild_atom(atom, leaf, free, done)
            term = term * found
        result.append(term)
    return total(result)


def _rebuild_atom(atom: Atom, leaf: Callable[[Atom], Poly | None], free: frozenset[str] | None, done: dict[Atom, Poly]) -> Poly:
    def again(value: Poly) -> Poly:
        return _rebuild(value, leaf, free, done)

    found = leaf(atom)
    if found is not None:
        return found
    match atom:
        case Floor():
            return floor_div(again(atom.numerator), again(atom.denominator))
        case Extreme():
            return _extreme(atom.least, map(again, atom.args))
        case Test():
            value = again(atom.value)
            return is_zero(value) if atom.equal else at_least_zero(value)
        case Choice():
            return choice(resolve_tests(again(atom.condition)), again(atom.then), again(atom.other))
        case Sum():
            return poly(Sum(again(atom.body), atom.index, again(atom.low), again(atom.high)))
        case Symbol() | Unknown():
            return poly(atom)
        case _:
            raise TypeError(f"no rule rebuilds {atom!r}")
