"""Integer and truth-value operations of the `arith` dialect on expressions. Overflow is not modelled: indices do not wrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ioaware.analysis.ir.bounds import nonnegative
from ioaware.analysis.ir.build import at_least_zero, choice, floor_div, greatest, is_zero, least, mod, negated, truncated_div
from ioaware.analysis.ir.poly import Poly, poly

Rule: TypeAlias = Callable[[Poly, Poly], Poly | None]

COMPARISONS: Mapping[str, Callable[[Poly, Poly], Poly]] = {
    "eq": lambda a, b: is_zero(a - b),
    "ne": lambda a, b: negated(is_zero(a - b)),
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
    """Signed and unsigned agree where nothing is negative."""
    return lambda a, b: rule(a, b) if nonnegative(a) and nonnegative(b) else None


def _and(a: Poly, b: Poly) -> Poly | None:
    """The low bits, where one side is 2**k - 1."""
    for value, mask in ((a, b), (b, a)):
        bits = mask.constant
        if bits is not None and bits >= 0 and (int(bits) + 1) & int(bits) == 0:
            return mod(value, poly(int(bits) + 1))
    both = a.constant, b.constant
    return poly(int(both[0]) & int(both[1])) if both[0] is not None and both[1] is not None else None


def _constants(operation: Callable[[int, int], int]) -> Rule:
    def rule(a: Poly, b: Poly) -> Poly | None:
        x, y = a.constant, b.constant
        return None if x is None or y is None else poly(operation(int(x), int(y)))

    return rule


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
    "ori": _constants(lambda x, y: x | y),
    "xori": _constants(lambda x, y: x ^ y),
}

LOGICAL: Mapping[str, Rule] = {
    "andi": lambda a, b: a * b,
    "muli": lambda a, b: a * b,
    "minui": lambda a, b: a * b,
    "ori": lambda a, b: negated(negated(a) * negated(b)),
    "maxui": lambda a, b: negated(negated(a) * negated(b)),
    "xori": lambda a, b: negated(b) if a.constant == 1 else negated(a) if b.constant == 1 else a + b - 2 * (a * b),
    "addi": lambda a, b: a + b - 2 * (a * b),
    "subi": lambda a, b: a + b - 2 * (a * b),
}
"""The same operations on truth values, which are 1 or 0."""


def compare(predicate: str, a: Poly, b: Poly) -> Poly | None:
    """`slt`, `uge`, `eq`; an unsigned comparison of what may be negative has no rule."""
    if predicate in ("eq", "ne"):
        return COMPARISONS[predicate](a, b)
    if predicate.startswith("u") and not (nonnegative(a) and nonnegative(b)):
        return None
    return COMPARISONS[predicate[1:]](a, b)


__all__ = ["BINARY", "LOGICAL", "choice", "compare"]
