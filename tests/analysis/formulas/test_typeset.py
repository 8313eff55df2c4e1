"""Long formulas are typeset: broken at terms, repeated parts named."""

from __future__ import annotations

import re

import pytest
import sympy

from ioaware.analysis.formulas import typeset as module
from ioaware.analysis.formulas.functions import Holds, ceil_div, positive_symbols
from ioaware.analysis.formulas.typeset import formulas_html, typeset, typeset_condition

rows, cols, seq_len = positive_symbols("rows cols seq_len")


def words(html: str) -> str:
    """Return the characters of a formula."""
    return re.sub(r"<[^>]*>", "", html)


def test_a_long_sum_may_end_a_line_before_each_term() -> None:
    html = typeset(4 * rows * cols**2 - 128 * rows * ceil_div(cols, 64) + 16 * cols * seq_len + 7 * rows * seq_len)
    assert html.count("<math>") == 4
    assert html.count('<mo form="infix">') == 3
    assert html.count('<mo form="infix">\u2212</mo>') == 1
    assert typeset(rows + cols).count("<math>") == 1


def test_repeated_parts_have_names() -> None:
    blocks = ceil_div(seq_len, 128)
    html = typeset(256 * rows * blocks**2 - 64 * cols * blocks + 8 * rows * cols * blocks * (blocks + 1))
    assert words(html).count("128") == 1
    assert "with <math><mi>n</mi><mo>=</mo>" in html


def test_a_formula_that_is_too_long_is_code_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TEXT", 20)
    assert typeset(rows * cols * seq_len * (rows + cols)) == ""
    assert "<code>" in formulas_html([("kernel", rows * cols * seq_len * (rows + cols), rows)])


def test_a_name_in_a_long_formula_cannot_be_markup() -> None:
    hostile = sympy.Symbol("<script>alert(1)</script>", integer=True, positive=True)
    blocks = ceil_div(hostile, 128)
    for html in (typeset(256 * rows * blocks**2 - 64 * cols * blocks + hostile), typeset_condition(Holds(hostile - 3))):
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_a_condition_is_typeset() -> None:
    assert words(typeset_condition(sympy.Eq(sympy.Mod(seq_len, 8), 0))) == "mod(seq_len,8)=0"
