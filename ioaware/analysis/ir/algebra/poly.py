"""Represent integer expressions in normal form: polynomials over atoms.

Atoms are symbols, floors, minima and tests.

Truth values are polynomials too, 1 or 0: `and` is a product, `not a` is 1 - a. A division is a floor, exact in integers. Why
not sympy: its constructors query assumptions at every node, too slow for an IR of a thousand operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar, Union
from weakref import WeakValueDictionary

Coefficient: TypeAlias = Union[int, Fraction]  # noqa: UP007 - a value at run time too


A = TypeVar("A", bound="Atom")


class _OneOfEach(type):
    """Interns atoms by key: equal atoms are one object.

    Dictionaries look up such objects fastest.
    """

    def __call__(cls: type[A], *args: Any, **kwargs: Any) -> A:  # pyright: ignore[reportGeneralTypeIssues]
        made: Any = type.__call__(cls, *args, **kwargs)
        return _atoms.setdefault((cls, made.key, made.idempotent), made)


class Atom(metaclass=_OneOfEach):
    """Variable of a polynomial.

    `key` identifies it; `free` are the keys of symbols inside.
    """

    __slots__ = ("__weakref__", "free", "idempotent", "key")
    key: str
    free: frozenset[str]
    idempotent: bool  # its only values are 0 and 1

    def __init__(self, key: str, free: frozenset[str], idempotent: bool = False) -> None:
        self.key, self.free, self.idempotent = key, free, idempotent

    def __repr__(self) -> str:
        return self.key


_atoms: WeakValueDictionary[tuple[Any, str, bool], Any] = WeakValueDictionary()

Monomial: TypeAlias = tuple[Atom, ...]  # sorted by key; a power is a repetition


class Poly:
    """Immutable sum of coefficient times monomial."""

    __slots__ = ("_atoms", "_free", "_key", "terms")

    def __init__(self, terms: Mapping[Monomial, Coefficient]) -> None:
        self.terms = terms
        self._key: str | None = None
        self._free: frozenset[str] | None = None
        self._atoms: frozenset[Atom] | None = None

    @property
    def free(self) -> frozenset[str]:
        """Return the keys of the symbols inside."""
        if self._free is None:
            self._free = frozenset[str]().union(*[atom.free for monomial in self.terms for atom in monomial])
        return self._free

    @property
    def key(self) -> str:
        """Return the normal form as text."""
        if self._key is None:
            parts = ["*".join([str(c), *[atom.key for atom in monomial]]) for monomial, c in self.terms.items()]
            self._key = "+".join(sorted(parts)) or "0"
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key

    @property
    def constant(self) -> Coefficient | None:
        """Return its value where it has no atoms."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def atom(self) -> Atom | None:
        """Return the atom that it consists of, if it is one."""
        if len(self.terms) != 1:
            return None
        ((monomial, coefficient),) = self.terms.items()
        return monomial[0] if len(monomial) == 1 and coefficient == 1 else None

    @property
    def atoms(self) -> frozenset[Atom]:
        """Return the atoms of its monomials, without those inside them."""
        if self._atoms is None:
            self._atoms = frozenset([atom for monomial in self.terms for atom in monomial])
        return self._atoms

    def __add__(self, other: Poly | Coefficient) -> Poly:
        other = poly(other)
        if not other.terms:
            return self
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            _accumulate(terms, monomial, coefficient)
        return Poly(terms)

    def __mul__(self, other: Poly | Coefficient) -> Poly:
        if not isinstance(other, Poly):
            return ZERO if other == 0 else self if other == 1 else Poly({m: whole(c * other) for m, c in self.terms.items()})
        terms: dict[Monomial, Coefficient] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                _accumulate(terms, _product(left, right), a * b)
        return Poly(terms)

    def __neg__(self) -> Poly:
        return self * -1

    def __sub__(self, other: Poly | Coefficient) -> Poly:
        return self + -poly(other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Coefficient) -> Poly:
        return poly(other) - self


def whole(value: Coefficient) -> Coefficient:
    """Return a fraction with denominator 1 as an int."""
    return value if isinstance(value, int) or value.denominator != 1 else value.numerator


def _accumulate(terms: dict[Monomial, Coefficient], monomial: Monomial, coefficient: Coefficient) -> None:
    value = whole(terms.get(monomial, 0) + coefficient)
    if value:
        terms[monomial] = value
    else:
        terms.pop(monomial, None)


def _product(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    atoms = sorted((*left, *right), key=lambda atom: atom.key)
    return tuple(atom for at, atom in enumerate(atoms) if not (atom.idempotent and at and atoms[at - 1].key == atom.key))


ZERO = Poly({})
ONE = Poly({(): 1})


def poly(value: Poly | Atom | Coefficient) -> Poly:
    """Return a number or an atom as a polynomial."""
    if isinstance(value, Poly):
        return value
    if isinstance(value, Atom):
        return Poly({(value,): 1})
    return Poly({(): whole(value)}) if value else ZERO


def total(parts: Iterable[Poly]) -> Poly:
    """Return the sum of many polynomials."""
    terms: dict[Monomial, Coefficient] = {}
    for part in parts:
        for monomial, coefficient in part.terms.items():
            _accumulate(terms, monomial, coefficient)
    return Poly(terms)


def monomial(atoms: Monomial, coefficient: Coefficient = 1) -> Poly:
    """Return a polynomial of one term."""
    return Poly({atoms: coefficient})


class Symbol(Atom):
    """A parameter, or an index with inclusive bounds; bounds are part of its key."""

    __slots__ = ("lower", "name", "upper")

    def __init__(self, name: str, lower: Poly | None = None, upper: Poly | None = None) -> None:
        self.name, self.lower, self.upper = name, lower, upper
        bounds = "" if lower is None and upper is None else f"[{lower},{upper}]"
        key = name + bounds
        super().__init__(key, frozenset((key,)))


class Floor(Atom):
    """floor(numerator / denominator)."""

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: Poly, denominator: Poly) -> None:
        self.numerator, self.denominator = numerator, denominator
        super().__init__(f"({numerator.key})//({denominator.key})", numerator.free | denominator.free)


class Extreme(Atom):
    """The least or the greatest of several polynomials."""

    __slots__ = ("args", "least")

    def __init__(self, least: bool, args: Iterable[Poly]) -> None:
        self.least, self.args = least, tuple(sorted(args, key=lambda arg: arg.key))
        key = f"{'min' if least else 'max'}({','.join(arg.key for arg in self.args)})"
        super().__init__(key, frozenset[str]().union(*(arg.free for arg in self.args)))


class Test(Atom):
    """1 where `value` >= 0 (or == 0), else 0."""

    __slots__ = ("equal", "value")
    __test__ = False  # pytest collects by name

    def __init__(self, value: Poly, equal: bool) -> None:
        self.value, self.equal = value, equal
        super().__init__(f"[{value.key}{'==' if equal else '>='}0]", value.free, idempotent=True)


class Choice(Atom):
    """`then` where `condition` is 1, `other` where it is 0."""

    __slots__ = ("condition", "other", "then")

    def __init__(self, condition: Poly, then: Poly, other: Poly) -> None:
        self.condition, self.then, self.other = condition, then, other
        key = f"({then.key} if {condition.key} else {other.key})"
        super().__init__(key, condition.free | then.free | other.free)


class Sum(Atom):
    """The sum of `body` for `index` from `low` to `high`, exclusive.

    0 for an empty range.
    """

    __slots__ = ("body", "high", "index", "low")

    def __init__(self, body: Poly, index: Symbol, low: Poly, high: Poly) -> None:
        self.body, self.index, self.low, self.high = body, index, low, high
        key = f"sum({body.key} for {index.key} in {low.key}..{high.key})"
        super().__init__(key, (body.free - {index.key}) | low.free | high.free)


class Unknown(Atom):
    """Value that depends on data or has no rule: an unspecified function of `args`.

    `source` identifies the function: two unknowns are the same value where source and arguments are equal. `name` is for
    display.
    """

    __slots__ = ("args", "name", "source", "why")

    def __init__(self, name: str, why: str, args: Iterable[Poly] = (), truth: bool = False, source: str = "") -> None:
        self.name, self.why, self.args, self.source = name, why, tuple(args), source
        key = f"{name}{{{source}}}({','.join(arg.key for arg in self.args)})"
        super().__init__(key, frozenset((name,)).union(*(arg.free for arg in self.args)), idempotent=truth)

    def at(self, args: Iterable[Poly]) -> Unknown:
        """Return the same function of other arguments."""
        return Unknown(self.name, self.why, args, self.idempotent, self.source)

    def renamed(self, name: str) -> Unknown:
        """Return the same value under another name."""
        return Unknown(name, self.why, self.args, self.idempotent, self.source)


def parts(atom: Atom) -> list[Poly]:
    """Return the polynomials inside an atom."""
    match atom:
        case Floor():
            return [atom.numerator, atom.denominator]
        case Extreme():
            return list(atom.args)
        case Test():
            return [atom.value]
        case Choice():
            return [atom.condition, atom.then, atom.other]
        case Sum():
            return [atom.body, atom.low, atom.high]
        case _:
            return []
