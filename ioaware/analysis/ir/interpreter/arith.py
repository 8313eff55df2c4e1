"""Interpret integer and boolean operations of the `arith` dialect.

Overflow is not modelled: indices do not wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod, truncated_div
from ioaware.analysis.ir.algebra.poly import ZERO, Floor, Poly, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero, choice, is_zero, negation, resolve_tests
from ioaware.analysis.ir.algebra.prover import nonnegative

INDEX_BITS = 32
Rule: TypeAlias = Callable[[Poly, Poly], Poly | None]

COMPARISONS: Mapping[str, Callable[[Poly, Poly], Poly]] = {
    "eq": lambda a, b: is_zero(a - b),
    "ne": lambda a, b: negation(is_zero(a - b)),
    "lt": lambda a, b: at_least_zero(b - a - 1),
    "le": lambda a, b: at_least_zero(b - a),
    "gt": lambda a, b: at_least_zero(a - b - 1),
    "ge": lambda a, b: at_least_zero(a - b),
}


def _shift_left(a: Poly, b: Poly) -> Poly | None:
    return a * 2 ** int(b.constant) if b.constant is not None else None


def _shift_right(a: Poly, b: Poly) -> Poly | None:
    return floor_div(a, poly(2 ** int(b.constant))) if b.constant is not None else None


def _unsigned(rule: Rule) -> Rule:
    """Apply a signed rule to unsigned operands, where neither is negative."""
    return lambda a, b: rule(a, b) if nonnegative(a) and nonnegative(b) else None


MOST_EDGES = 8
"""Most changes between the bits of a mask of loaded values."""


def _and(a: Poly, b: Poly) -> Poly | None:
    """Mask with a constant: bits below 2**h without those below 2**l.

    There is one such term for each run of ones. Loaded values under a mask of many runs have no rule: dozens of terms say
    nothing of them, and proofs of their signs take minutes.
    """
    value, mask = (a, b.constant) if b.constant is not None else (b, a.constant)
    if mask is None:
        return None
    edges = (int(mask) ^ (int(mask) >> 1)).bit_count()
    if edges > MOST_EDGES and any("@" in key for key in value.free):
        return None
    bits, place, result = int(mask), 0, ZERO
    while bits not in (0, -1):
        if bits & 1 != (bits >> 1) & 1:
            below = mod(value, poly(2 ** (place + 1)))
            result = result + (below if bits & 1 else -below)
        bits, place = bits >> 1, place + 1
    return result + value if bits else result


def _or(a: Poly, b: Poly) -> Poly | None:
    both = _and(a, b)
    return None if both is None else a + b - both


def _exclusive_or(a: Poly, b: Poly) -> Poly | None:
    both = _and(a, b)
    return None if both is None else a + b - 2 * both


BINARY: Mapping[str, Rule] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": truncated_div,
    "divui": _unsigned(truncated_div),
    "floordivsi": floor_div,
    "ceildivsi": lambda a, b: -floor_div(-a, b),
    "ceildivui": _unsigned(lambda a, b: -floor_div(-a, b)),
    "remsi": lambda a, b: a - b * truncated_div(a, b),
    "remui": _unsigned(lambda a, b: mod(a, b)),
    "minsi": least,
    "maxsi": greatest,
    "minui": _unsigned(least),
    "maxui": _unsigned(greatest),
    "shli": _shift_left,
    "shrsi": _shift_right,
    "shrui": _unsigned(_shift_right),
    "andi": _and,
    "ori": _or,
    "xori": _exclusive_or,
}

LOGICAL: Mapping[str, Rule] = {
    "andi": lambda a, b: a * b,
    "muli": lambda a, b: a * b,
    "minui": lambda a, b: a * b,
    "ori": lambda a, b: negation(negation(a) * negation(b)),
    "maxui": lambda a, b: negation(negation(a) * negation(b)),
    "xori": lambda a, b: negation(b) if a.constant == 1 else negation(a) if b.constant == 1 else a + b - 2 * (a * b),
    "addi": lambda a, b: a + b - 2 * (a * b),
    "subi": lambda a, b: a + b - 2 * (a * b),
}
"""The same operations on truth values, which are 1 or 0."""


def truncate(a: Poly, bits: int) -> Poly:
    """Apply `trunci` to fewer bits than an index has, wrapping around."""
    half = 2 ** (bits - 1)
    if bits >= INDEX_BITS or (nonnegative(a + half) and nonnegative(half - 1 - a)):
        return a
    return mod(a + half, poly(2 * half)) - half


def zero_extend(a: Poly, bits: int) -> Poly:
    """Apply `extui`: a negative value gains 2**bits.

    An unknown stands for its loaded value.
    """
    if any(isinstance(atom, Unknown) for atom in a.atoms):
        return a
    return a + 2**bits * resolve_tests(at_least_zero(-a - 1))


def compare(predicate: str, a: Poly, b: Poly) -> Poly | None:
    """Apply `slt`, `uge`, `eq` and so on.

    None for an unsigned comparison of possibly negative values.
    """
    if predicate in ("eq", "ne"):
        return COMPARISONS[predicate](a, b)
    if predicate.startswith("u") and not (nonnegative(a) and nonnegative(b)):
        return None
    return COMPARISONS[predicate[1:]](a, b)


def high_product(a: Poly, b: Poly) -> Poly | None:
    """Apply 32-bit `mulhiui`: floor(a b / 2^32) of non-negative values.

    Where a is 4 n and b the inverse floor((2^30 - 1) / d) + 1, the result is floor(n / d): division by an invariant.
    It holds for n >= 0 while n (d - 1) < 2^30, which the kernel has to ensure.
    """
    divisor = _divisor_of_inverse(b)
    if divisor is not None and all(coefficient % 4 == 0 for coefficient in a.terms.values()):
        return floor_div(Poly({monomial: coefficient // 4 for monomial, coefficient in a.terms.items()}), divisor)
    return floor_div(a * b, poly(2**32)) if nonnegative(a) and nonnegative(b) else None


def _divisor_of_inverse(inverse: Poly) -> Poly | None:
    """Return d of floor((2^30 - 1) / d) + 1; None for another expression."""
    if inverse.constant is not None:
        number = int(inverse.constant)
        divisor = -(-(2**30) // number) if number > 0 else 0
        return poly(divisor) if divisor and (2**30 - 1) // divisor + 1 == number else None
    floor = (inverse - 1).atom
    return floor.denominator if isinstance(floor, Floor) and floor.numerator.constant == 2**30 - 1 else None


__all__ = ["BINARY", "LOGICAL", "choice", "compare", "high_product", "truncate", "zero_extend"]
