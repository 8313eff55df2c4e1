"""Long formulas are divided where a line may end, and nothing of them is lost."""

from __future__ import annotations

import re

import pytest
import sympy

from ioaware.analysis.formulas.functions import ceil_div, positive_symbols
from ioaware.display.math_lines import ONE_LINE, breakable
from ioaware.display.mathml import mathml

a, b, c, k = positive_symbols("alpha beta gamma k")
LONG = sympy.Sum(
    sympy.Max(0, sympy.Min(a * (b - k) + c, ceil_div(a + b, 64) - c * k)) * (a - 1) - a * b / (a + c), (k, 0, a - 1)
)


def words(html: str) -> str:
    """Return the characters of a formula."""
    return re.sub(r"<[^>]*>|\\s", "", html).replace(" ", "")


def well_formed(xml: str) -> bool:
    """Return whether every element ends where it should."""
    inside: list[str] = []
    for closing, name in re.findall(r"<(/?)(\w+)[^>]*>", xml):
        if not closing:
            inside.append(name)
        elif not inside or inside.pop() != name:
            return False
    return not inside


@pytest.mark.parametrize("expr", [64 * LONG - a, a * b, a + b + c - 4 * a * b + ceil_div(a * b, 128) * c, -LONG])
def test_pieces_have_the_characters_of_the_whole_in_order(expr: sympy.Expr) -> None:
    whole = mathml(expr)
    divided = breakable(whole)
    assert words(divided) == words(whole)
    for piece in divided.split("</math> "):
        assert well_formed(piece.removesuffix("</math>") + "</math>")


def test_a_long_product_is_divided_inside_of_its_parentheses() -> None:
    pieces = [words(piece) for piece in breakable(mathml(64 * LONG)).split("</math> ")]
    assert len(pieces) >= 3
    assert max(map(len, pieces)) < 2 * ONE_LINE
    assert all(not piece.startswith((")", "]", ",", "\u00b7")) and not piece.endswith(("(", "+", "\u2212")) for piece in pieces)


def test_a_short_formula_stays_whole() -> None:
    assert breakable(mathml(a * b + c)) == mathml(a * b + c)
