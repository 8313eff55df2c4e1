"""Formulas in notebooks: MathML, and no markup from names."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import sympy

from ioaware.analysis.formulas.functions import ceil_div, positive_symbols
from ioaware.analysis.formulas.typeset import formulas_html
from ioaware.display.mathml import LONGEST, mathml

(seq_len,) = positive_symbols("seq_len")


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.replace("&InvisibleTimes;", "*"))  # noqa: S314 - written by this package


def test_names_stay_whole_and_quotients_are_fractions() -> None:
    math = parse(mathml(256 * seq_len * ceil_div(seq_len, 64)))
    assert [element.text for element in math.iter("mi")] == ["seq_len", "seq_len"]
    assert len(list(math.iter("mfrac"))) == 1


def test_a_name_cannot_be_markup() -> None:
    hostile = sympy.Symbol("<script>alert(1)</script>", integer=True)
    assert "<script" not in formulas_html([("<b>kernel", hostile + 1, hostile)])
    assert "<b>kernel" not in formulas_html([("<b>kernel", hostile, hostile)])


def test_a_very_long_formula_is_shown_by_its_length() -> None:
    long = sympy.Add(*(sympy.Symbol(f"n{i}") ** 2 for i in range(LONGEST // 20)))
    assert "characters" in mathml(long)
    assert "<math>" not in mathml(long)


def test_factors_do_not_run_together() -> None:
    cols, rows = positive_symbols("cols rows")
    assert "<mi>cols</mi><mo>\u00b7</mo><mi>rows</mi>" in mathml(2 * cols * rows).replace("&#xB7;", "\u00b7")


def test_cases_are_written_as_on_the_command_line() -> None:
    cols, rows = positive_symbols("cols rows")
    math = mathml(4 + sympy.Piecewise((rows, sympy.Eq(cols, 8)), (cols, True)))
    assert re.sub(r"<[^>]*>", "", math).replace("\u00a0", " ") == "(rows if cols=8 else cols)+4"
    assert re.sub(r"<[^>]*>", "", mathml(sympy.Piecewise((rows, sympy.Eq(cols, 8))))).endswith("unknown)")


def test_a_sum_has_all_its_indices_the_outermost_first() -> None:
    (count, i, j) = sympy.symbols("count i j", integer=True)
    math = mathml(8 * sympy.Sum(i * j, (i, 0, j), (j, 1, count)))
    assert re.sub(r"<[^>]*>", "", math) == "8·(∑j=1count∑i=0j(i·j))"
    assert len(list(parse(math).iter("munderover"))) == 2


def test_a_negative_number_has_a_minus_sign() -> None:
    assert "<mn>−63</mn>" in mathml(sympy.Symbol("n") + sympy.Piecewise((1, sympy.Symbol("m") >= -63), (0, True)))
    assert "<mn>-" not in mathml(sympy.Symbol("n") ** -2)
