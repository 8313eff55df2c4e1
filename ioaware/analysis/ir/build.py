"""Constructors that simplify: floors, minima, tests and choices come out in the form that later rules look for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd

from ioaware.analysis.ir.bounds import nonnegative, positive
from ioaware.analysis.ir.poly import (
    ONE,
    ZERO,
    Atom,
    Choice,
    Coefficient,
    Extreme,
    Floor,
    Monomial,
    Poly,
    Sum,
    Symbol,
    Test,
    Unknown,
    poly,
)

PATIENT = 7  # how deep the proof of a sign may go that many later rules depend on


def floor_div(a: Poly, b: Poly) -> Poly:
    """floor(a / b), b not 0."""
    divisor = b.constant
    if divisor is not None:
        return _floor_by_constant(a, int(divisor))
    quotient, rest = _divide(a, b)
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
    """floor((c x + r) / (c k)) is floor(x / k) for a rest r of 0 .. c - 1, and floor((x - 1) / k) for one of -c .. -1."""
    if len(b.terms) != 1:
        return None
    ((factors, scale),) = b.terms.items()
    if scale == 1:
        return None
    symbols = Poly({factors: 1})
    quotient, rest = _divide(a, symbols)
    if not quotient.terms or not positive(symbols):
        return None
    if nonnegative(rest) and nonnegative(symbols - rest - 1):
        return floor_div(quotient, poly(scale))
    if nonnegative(-rest - 1) and nonnegative(rest + symbols):
        return floor_div(quotient - 1, poly(scale))
    return None


def _floor(numerator: Poly, denominator: Poly) -> Poly:
    """The atom, as floor(-x/d) = -floor((x + d - 1)/d): the one whose numerator is not negative, or has fewer minus signs."""
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


def _divide(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """Terms of `a` that a divisor of one term divides, and the rest."""
    if len(b.terms) != 1:
        return (ONE, ZERO) if a == b else (-ONE, ZERO) if a == -b else (ZERO, a)
    ((factors, scale),) = b.terms.items()
    quotient: dict[Monomial, Coefficient] = {}
    rest: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in a.terms.items():
        left = _without(monomial, factors)
        if left is not None and isinstance(coefficient, int) and coefficient % scale == 0:
            quotient[left] = int(coefficient // scale)
        else:
            rest[monomial] = coefficient
    return Poly(quotient), Poly(rest)


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    left = list(monomial)
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def _floor_by_constant(a: Poly, b: int) -> Poly:
    if b < 0:
        a, b = -a, -b
    if b == 1:
        return a
    quotient: dict[Monomial, Coefficient] = {}
    rest: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in a.terms.items():
        if not isinstance(coefficient, int):
            return _floor(a, poly(b))
        whole, left = divmod(coefficient, b)
        if monomial and left:
            rest[monomial] = coefficient
        else:
            if whole:
                quotient[monomial] = whole
            if left:
                rest[monomial] = left
    if not any(rest):
        return Poly(quotient)  # a constant between 0 and b
    return Poly(quotient) + _floor_of_rest(Poly(rest), b)


def _floor_of_rest(rest: Poly, b: int) -> Poly:
    common = gcd(b, *(int(c) for monomial, c in rest.terms.items() if monomial))
    if common > 1:
        rest = Poly({m: (c // common) for m, c in rest.terms.items() if m or c // common})
        return _floor_by_constant(rest, b // common)
    if nonnegative(rest) and nonnegative(b - 1 - rest):
        return ZERO
    one = _floor_of_distributed(rest, poly(b))
    return one if one is not None else _floor(rest, poly(b))


def _floor_of_distributed(rest: Poly, b: Poly) -> Poly | None:
    """floor is monotone, so it goes inside a minimum, a maximum and a choice; and floors of floors are one floor."""
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
    """a - b floor(a / b)."""
    return a - b * floor_div(a, b)


def truncated_div(a: Poly, b: Poly) -> Poly:
    """a / b rounded towards zero, as C and the IR have it. The signs are worth a long proof: without them all is a choice."""
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
    return _extreme(True, args)


def greatest(*args: Poly) -> Poly:
    return _extreme(False, args)


def _extreme(is_least: bool, args: Iterable[Poly]) -> Poly:
    """The least or greatest, without the arguments that another one always beats."""
    flat: dict[Poly, None] = {}
    for arg in args:
        flat.update(dict.fromkeys(_flattened(_absorbed(arg), is_least)))
    common = _common_factor(flat) * (common_coefficient(flat) if ZERO in flat else 1)
    if common.terms != ONE.terms:
        return common * _extreme(is_least, [_divide(arg, common)[0] for arg in flat])
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
    """min(c max(0, a), b) as max(0, min(c a, b)) for b not negative: the form of a clip that sums over tiles know."""
    for at, arg in enumerate(args):
        ((factors, scale),) = arg.terms.items() if len(arg.terms) == 1 else (((), 0),)
        atom = factors[0] if len(factors) == 1 and scale > 0 else None
        others = [other for k, other in enumerate(args) if k != at]
        if isinstance(atom, Extreme) and not atom.least and ZERO in atom.args and all(map(nonnegative, others)):
            inner = greatest(*(other for other in atom.args if other != ZERO))
            return greatest(ZERO, least(inner * scale, *others))
    return None


def _absorbed(arg: Poly) -> Poly:
    """min(a, b) + x as min(a + x, b + x), for as much of x as one of the arguments cancels."""
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
    """c min(a, b) + x inside a minimum, c > 0, as c a + x and c b + x."""
    for factors, coefficient in arg.terms.items():
        atom = factors[0] if len(factors) == 1 else None
        if isinstance(atom, Extreme) and atom.least == is_least and coefficient > 0:
            rest = Poly({m: c for m, c in arg.terms.items() if m != factors})
            if not any(atom in m for m in rest.terms):
                return [flat for inner in atom.args for flat in _flattened(inner * coefficient + rest, is_least)]
    return [arg]


def _common_factor(args: Iterable[Poly]) -> Poly:
    """The symbols, never negative, that every term of every argument has as factors."""
    monomials = [factors for arg in args if arg.terms for factors in arg.terms]
    shared: list[Atom] = []
    for atom in dict.fromkeys(monomials[0] if len(monomials) > 1 else ()):
        if all(atom in factors for factors in monomials) and nonnegative(poly(atom)):
            shared.append(atom)
    return Poly({tuple(shared): 1})


def common_coefficient(args: Iterable[Poly]) -> int:
    """The integer that every coefficient is a multiple of: with 0 among the arguments what is left of one is a clip again."""
    coefficients = [c for arg in args for c in arg.terms.values()]
    return gcd(*(c if isinstance(c, int) else 1 for c in coefficients)) if coefficients else 1


def _beats(a: Poly, b: Poly, is_least: bool) -> bool:
    return nonnegative(b - a if is_least else a - b)


def at_least_zero(value: Poly) -> Poly:
    """[value >= 0]."""
    constant = value.constant
    if constant is not None:
        return ONE if constant >= 0 else ZERO
    atom = value.atom
    if atom is not None and atom.idempotent:
        return ONE
    common = gcd(*(int(c) if isinstance(c, int) else 1 for monomial, c in value.terms.items() if monomial))
    if common > 1:
        value = Poly({m: c // common for m, c in value.terms.items() if m or c // common})
    return poly(Test(value, equal=False))


def is_zero(value: Poly) -> Poly:
    """[value == 0]."""
    constant = value.constant
    if constant is not None:
        return ONE if constant == 0 else ZERO
    first = min(value.terms, key=lambda m: tuple(atom.key for atom in m) or ("~",))
    return poly(Test(value if value.terms[first] > 0 else -value, equal=True))


def negated(truth: Poly) -> Poly:
    """1 - truth; one inequality turns around."""
    atom = truth.atom
    if isinstance(atom, Test) and not atom.equal:
        return at_least_zero(-atom.value - 1)
    if isinstance(atom, Unknown):
        return poly(Unknown(f"not {atom.name}", atom.why, atom.over, truth=True))
    return 1 - truth


def either(a: Poly, b: Poly) -> Poly:
    """One of two conditions that exclude each other; a test and its opposite together are certain."""
    both = a + b
    for factors, coefficient in both.terms.items():
        for atom in factors:
            opposite = negated(poly(atom)).atom if isinstance(atom, Test) else None
            if opposite is None:
                continue
            rest = tuple(other for other in factors if other != atom)
            partner = tuple(sorted((*rest, opposite), key=lambda other: other.key))
            if both.terms.get(partner) == coefficient:
                left = Poly({m: c for m, c in both.terms.items() if m not in (factors, partner)})
                return either(left, Poly({rest: coefficient}))
    return both


def decided(truth: Poly) -> Poly:
    """With every test that is certain replaced by its outcome."""
    for atom in truth.atoms:
        if isinstance(atom, Test):
            if atom.equal:
                outcome = ZERO if positive(atom.value) or positive(-atom.value) else None
            else:
                outcome = ONE if nonnegative(atom.value) else ZERO if nonnegative(-atom.value - 1) else None
            if outcome is not None:
                kept = Poly({m: c for m, c in truth.terms.items() if atom not in m})
                moved = Poly({tuple(a for a in m if a != atom): c for m, c in truth.terms.items() if atom in m})
                return decided(kept + moved * outcome)
    return truth


def choice(condition: Poly, then: Poly, other: Poly) -> Poly:
    """`then` where the condition is 1."""
    constant = condition.constant
    if constant is not None:
        return then if constant else other
    if then == other:
        return then
    if then == ONE and other == ZERO:
        return condition
    if then == ZERO and other == ONE:
        return negated(condition)
    atom = condition.atom
    if atom is None:  # of a condition and its negation the one that is a test
        opposite = negated(condition)
        if opposite.atom is not None:
            return choice(opposite, other, then)
    return poly(Choice(condition, then, other))


def substitute(value: Poly, by: Mapping[str, Poly]) -> Poly:
    """With the symbols of these keys replaced, rebuilt by the constructors above."""

    def leaf(atom: Atom) -> Poly | None:
        if isinstance(atom, Unknown):
            over = frozenset[str]().union(*(by[key].free if key in by else {key} for key in atom.over))
            return poly(Unknown(atom.name, atom.why, over, atom.idempotent))
        return by.get(atom.key) if isinstance(atom, Symbol) else None

    return rebuild(value, leaf, frozenset(by))


def rebuild(value: Poly, leaf: Callable[[Atom], Poly | None], free: frozenset[str] | None = None) -> Poly:
    """Every atom for which `leaf` gives something replaced by it; atoms without the symbols `free` are left alone."""
    if free is not None and not value.free & free:
        return value
    done: dict[Atom, Poly] = {}
    result = ZERO
    for monomial, coefficient in value.terms.items():
        term = poly(coefficient)
        for atom in monomial:
            if atom not in done:
                done[atom] = poly(atom) if free is not None and not atom.free & free else _rebuild_atom(atom, leaf, free)
            term = term * done[atom]
        result = result + term
    return result


def _rebuild_atom(atom: Atom, leaf: Callable[[Atom], Poly | None], free: frozenset[str] | None) -> Poly:
    def again(value: Poly) -> Poly:
        return rebuild(value, leaf, free)

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
            return choice(decided(again(atom.condition)), again(atom.then), again(atom.other))
        case Sum():
            return poly(Sum(again(atom.body), atom.index, again(atom.low), again(atom.high)))
        case Symbol() | Unknown():
            return poly(atom)
        case _:
            raise TypeError(f"no rule rebuilds {atom!r}")
