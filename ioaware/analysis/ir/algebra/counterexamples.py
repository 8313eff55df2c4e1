"""Search for counterexamples: sample values at which an expression is negative.

A sample gives every symbol one value within its bounds. Most claims of a derivation are false, and a proof search for a false
claim is long. A counterexample ends it.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from ioaware.analysis.ir.algebra.poly import Atom, Choice, Coefficient, Extreme, Floor, Poly, Symbol, Test, Unknown

SAMPLES, NEAR = 7, 24
"""Samples of any lengths, and of lengths that are near each other.

The latter are for claims that hold under conditions, which few of the former meet.
"""
LENGTHS = (1, 2, 3, 7, 16, 33, 64, 100, 127, 256, 500, 1023, 4096)


class NoValueError(Exception):
    """A sample gives no value: an empty index range, a division by 0, or a sum."""


def has_counterexample(value: Poly, where: tuple[Poly, ...] = ()) -> bool:
    """Return whether `value` is negative in a sample.

    None of the values `where` is negative there.
    """
    samples = range(SAMPLES + NEAR if where else SAMPLES)
    return any(_negative(value, sample) and all(_nonnegative(each, sample) for each in where) for sample in samples)


def _negative(value: Poly, sample: int) -> bool:
    try:
        return _number(value, sample) < 0
    except NoValueError:
        return False


def _nonnegative(value: Poly, sample: int) -> bool:
    try:
        return _number(value, sample) >= 0
    except NoValueError:
        return False


def _number(value: Poly, sample: int) -> Coefficient:
    result: Coefficient = 0
    for factors, coefficient in value.terms.items():
        term = coefficient
        for atom in factors:
            found = _value(atom, sample)
            if found is None:
                raise NoValueError
            term = term * found
        result = result + term
    return result


@lru_cache(maxsize=50_000)
def _value(atom: Atom, sample: int) -> Coefficient | None:
    try:
        return _of(atom, sample)
    except NoValueError:
        return None


def _of(atom: Atom, sample: int) -> Coefficient:
    match atom:
        case Symbol():
            return _place(atom, sample)
        case Floor():
            divisor = _number(atom.denominator, sample)
            if not divisor:
                raise NoValueError
            return _number(atom.numerator, sample) // divisor
        case Extreme():
            values = [_number(arg, sample) for arg in atom.args]
            return min(values) if atom.least else max(values)
        case Test():
            found = _number(atom.value, sample)
            return int(found == 0 if atom.equal else found >= 0)
        case Choice():
            return _number(atom.then if _number(atom.condition, sample) else atom.other, sample)
        case Unknown():
            return _drawn(atom.key, sample) % (2 if atom.idempotent else 1000)
        case _:
            raise NoValueError


def _place(symbol: Symbol, sample: int) -> Coefficient:
    """Return a length from a list, or an index at either end of its range or between."""
    drawn = _drawn(symbol.key, sample)
    low = _number(symbol.lower, sample) if symbol.lower is not None else -(drawn % 50)
    if symbol.upper is None and sample >= SAMPLES:
        return low + LENGTHS[sample % len(LENGTHS)] + drawn % 40
    if symbol.upper is None:
        return low + LENGTHS[drawn % len(LENGTHS)] - 1
    high = _number(symbol.upper, sample)
    if high < low:
        raise NoValueError
    return (low, high, low + drawn % int(high - low + 1))[drawn % 3]


def _drawn(key: str, sample: int) -> int:
    """Return a pseudo-random number, the same in every run."""
    return crc32(f"{sample}:{key}".encode())
