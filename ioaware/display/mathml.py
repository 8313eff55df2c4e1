"""Print formulas as MathML, which notebooks and browsers typeset without a script."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from ioaware.display.text import clean

if TYPE_CHECKING:
    from sympy import Expr

INDEXED = re.compile(r"<mi>([A-Za-z])_(\w)</mi>")
"""A letter with an index, as in B_r; a name such as seq_len stays whole."""
ENTITY = re.compile(r"&#(?:(\d{3,6})|x([89A-F][0-9A-F]|[0-9A-F]{3,5}));")
"""An operator's character as sympy writes it.

`<`, `>` and `&` have names or fewer digits.
"""
LONGEST = 20_000
"""Longest MathML in characters; a longer formula is replaced by its length."""


def mathml(expr: Expr) -> str:
    """Return the formula as a `<math>` element.

    sympy does not escape names, so they are escaped first.
    """
    from sympy import Symbol
    from sympy.printing import mathml as printer

    typeset: Any = printer
    found: Any = expr
    names = {symbol: escape(clean(str(symbol))) for symbol in found.atoms(Symbol)}
    safe = {symbol: Symbol(name, **symbol.assumptions0) for symbol, name in names.items() if name != str(symbol)}
    text = str(typeset(found.xreplace(safe), printer="presentation", disable_split_super_sub=True, mul_symbol="dot"))
    text = ENTITY.sub(lambda found: chr(int(found[1])) if found[1] else chr(int(found[2], 16)), text)
    text = text.replace("<mo>-</mo>", "<mo>−</mo>")
    text = INDEXED.sub(r"<msub><mi>\1</mi><mi>\2</mi></msub>", text)
    return f"<math>{text}</math>" if len(text) <= LONGEST else f"a formula in {len(text)} characters of MathML"
