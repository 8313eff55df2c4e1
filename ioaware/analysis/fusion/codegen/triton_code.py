"""Write expressions as Python source for Triton.

They are evaluated on a kind of number with pieces of code as values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

SUM, PRODUCT, POWER, ATOM = range(4)


@dataclass(frozen=True, slots=True)
class Code:
    """Source of an expression; `binds` is the precedence of its outermost operator."""

    text: str
    binds: int = ATOM
    value: Fraction | None = None

    def within(self, binds: int) -> str:
        """Return the source as an operand of an operator, in parentheses where needed."""
        return self.text if self.binds >= binds else f"({self.text})"

    def __add__(self, other: Code) -> Code:
        if other.text.startswith("-"):
            return Code(f"{self.text} - {other.text[1:]}", SUM)
        return Code(f"{self.text} + {other.text}", SUM)

    def __mul__(self, other: Code) -> Code:
        if self.value == 1:
            return other
        if self.value == -1:
            return Code(f"-{other.within(PRODUCT)}", PRODUCT)
        if other.value == 1:
            return self
        return Code(f"{self.within(PRODUCT)} * {other.within(PRODUCT)}", PRODUCT)


class TritonCode:
    """Expressions as `tl` calls.

    Functions that `tl` lacks are helpers of the generated file.
    """

    def constant(self, value: Any) -> Code:
        """Return a literal."""
        if not value.is_Rational:
            return Code('float("inf")') if value > 0 else Code('-float("inf")', PRODUCT)
        fraction = Fraction(int(value.p), int(value.q))
        return Code(repr(float(fraction)), ATOM if fraction >= 0 else PRODUCT, fraction)

    def divide(self, left: Code, right: Code) -> Code:
        """Return a quotient."""
        return Code(f"{left.within(PRODUCT)} / {right.within(POWER)}", PRODUCT)

    def power(self, base: Code, exponent: Fraction) -> Code:
        """Return a power: products, square roots, or exp(exponent log base).

        Products are for small integers, and exp(exponent log base) is for the rest.
        """
        if exponent < 0:
            return self.divide(self.constant_of(1), self.power(base, -exponent))
        if exponent == Fraction(1, 2):
            return Code(f"tl.sqrt({base.text})")
        if exponent.denominator == 1 and exponent <= 8:
            return Code(" * ".join([base.within(POWER)] * int(exponent)), PRODUCT)
        return Code(f"tl.exp({float(exponent)!r} * tl.log({base.text}))")

    def constant_of(self, value: int) -> Code:
        """Return the literal of an integer."""
        return Code(repr(float(value)), ATOM, Fraction(value))

    def function(self, name: str, *values: Code) -> Code:
        """Return a call."""
        names = {"exp": "tl.exp", "log": "tl.log", "absolute": "tl.abs", "maximum": "tl.maximum", "minimum": "tl.minimum"}
        return call(names.get(name, name), [value.text for value in values])


def call(function: str, arguments: Sequence[str]) -> Code:
    """Return a call of a function."""
    return Code(f"{function}({', '.join(arguments)})")
