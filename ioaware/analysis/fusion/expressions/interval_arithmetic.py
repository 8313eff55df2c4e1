"""Compute with intervals that are proven to contain a number.

The rank of a matrix of them is bounded from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.ctx_iv import MPIntervalContext

DIGITS = 120

_mpmath: Any = mpmath
_context: Any = MPIntervalContext()
_context.dps = DIGITS


class UndecidedError(Exception):
    """An interval does not decide, or a proof does not apply.

    The message is the reason as a clause.
    """


def interval(low: Fraction, high: Fraction | None = None) -> Any:
    """Return the interval of the numbers from `low` to `high`."""
    first = _context.mpf(low.numerator) / low.denominator
    if high is None:
        return first
    last = _context.mpf(high.numerator) / high.denominator
    return _context.mpf([first.a, last.b])


def has_zero(value: Any) -> bool:
    """Return whether 0 is not excluded."""
    if _is_complex(value):
        return has_zero(value.real) and has_zero(value.imag)
    return bool(value.a <= 0 <= value.b) or not (value.a <= value.b)


def is_above(left: Any, right: Any) -> bool:
    """Return whether all numbers of `left` are proven larger than those of `right`.

    Every number of one is compared with every number of the other.
    """
    return bool(left.a > right.b)


def midpoint(value: Any) -> float:
    """Return the middle of a real interval."""
    return float(value.mid)


class IntervalNumbers:
    """Interval arithmetic with outward rounding, for real and complex numbers.

    Raises `UndecidedError` at a singularity.
    """

    def constant(self, value: Any) -> Any:
        """Return the interval of a rational number."""
        return interval(Fraction(int(value.p), int(value.q)))

    def pi(self) -> Any:
        """Return the interval of pi."""
        return _context.pi + _context.mpf(0)

    def complex(self, real: Any, imaginary: Any) -> Any:
        """Return the rectangle of complex numbers."""
        return _context.mpc(real, imaginary)

    def divide(self, left: Any, right: Any) -> Any:
        """Return the quotient; the divisor must be proven nonzero."""
        if has_zero(right):
            raise UndecidedError("a divisor is not proven nonzero")
        return left / right

    def power(self, base: Any, exponent: Fraction) -> Any:
        """Return a rational power, of positive bases for a root."""
        if exponent.denominator == 1:
            whole = _context.mpf(1)
            for _ in range(abs(int(exponent))):
                whole = whole * base
            return whole if exponent > 0 else self.divide(_context.mpf(1), whole)
        return self.function("exp", self.function("log", base) * exponent.numerator / exponent.denominator)

    def function(self, name: str, *values: Any) -> Any:
        """Return exp, log, softplus, and functions of real numbers.

        The latter are absolute, sign, rint, maximum and minimum.
        """
        value = values[0]
        if name == "exp":
            return _context.exp(value)
        if name == "softplus":
            return self.function("log", 1 + _context.exp(value))
        if name == "log":
            return _log(value)
        if any(map(_is_complex, values)):
            raise UndecidedError(f"{name} of a complex number")
        if name in ("absolute", "sign"):
            sign = _sign(value)
            return value * sign if name == "absolute" else _context.mpf(sign)
        if name == "rint":
            return _rint(value)
        return _extreme(name, values)


def proven_rank(matrix: Sequence[Sequence[Any]]) -> int:
    """Return a number that the rank is proven to reach."""
    return len(independent_columns(matrix))


def independent_columns(matrix: Sequence[Sequence[Any]]) -> list[int]:
    """Return columns proven independent.

    They are those of an elimination's pivots, as long as one excludes 0.
    """
    rows = [list(row) for row in matrix]
    order = list(range(len(rows[0]))) if rows else []
    rank = 0
    while rank < len(rows):
        pivot = _largest(rows, rank)
        if pivot is None:
            break
        row, column = pivot
        rows[rank], rows[row] = rows[row], rows[rank]
        for entries in (*rows, order):
            entries[rank], entries[column] = entries[column], entries[rank]
        first = rows[rank]
        for entries in rows[rank + 1 :]:
            factor = entries[rank] / first[rank]
            entries[rank + 1 :] = [a - factor * b for a, b in zip(entries[rank + 1 :], first[rank + 1 :], strict=True)]
        rank += 1
    return order[:rank]


def _largest(rows: list[list[Any]], start: int) -> tuple[int, int] | None:
    """Return the position, from `start` on, of the entry that excludes 0 by the most."""
    places = [
        (abs(_mpmath.mpf(rows[i][j].mid)), i, j)
        for i in range(start, len(rows))
        for j in range(start, len(rows[i]))
        if not has_zero(rows[i][j])
    ]
    return max(places)[1:] if places else None


def _is_complex(value: Any) -> bool:
    return hasattr(value, "real") and isinstance(value, type(_context.mpc(0, 1)))


def _log(value: Any) -> Any:
    """Return the principal logarithm, away from 0 and from the cut."""
    if _is_complex(value):
        if value.real.a <= 0 and has_zero(value.imag):
            raise UndecidedError("a logarithm at its cut")
    elif value.a <= 0:
        raise UndecidedError("the logarithm or root of a number that is not proven positive")
    return _context.log(value)


def _sign(value: Any) -> int:
    if has_zero(value):
        raise UndecidedError("the sign of a number is not proven")
    return 1 if value.a > 0 else -1


def _rint(value: Any) -> Any:
    low, high = (round(Fraction(*_as_ratio(end))) for end in (value.a, value.b))
    if low != high:
        raise UndecidedError("a rounding is not proven")
    return _context.mpf(low)


def _as_ratio(end: Any) -> tuple[int, int]:
    sign, mantissa, exponent, _ = end.mid._mpi_[0] if hasattr(end, "_mpi_") else end._mpf_
    signed = -int(mantissa) if sign else int(mantissa)
    return (signed << exponent, 1) if exponent >= 0 else (signed, 1 << -exponent)


def _extreme(name: str, values: Sequence[Any]) -> Any:
    for one in values:
        others = [other for other in values if other is not one]
        if all(is_above(one, other) if name == "maximum" else is_above(other, one) for other in others):
            return one
    raise UndecidedError("which of two numbers is larger is not proven")
