"""Print formulas as MathML, which notebooks and browsers typeset without a script."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, cast

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

    found: Any = expr
    names = {symbol: escape(clean(str(symbol))) for symbol in found.atoms(Symbol)}
    safe = {symbol: Symbol(name, **symbol.assumptions0) for symbol, name in names.items() if name != str(symbol)}
    text = str(_printer().doprint(found.xreplace(safe)))
    text = ENTITY.sub(lambda found: chr(int(found[1])) if found[1] else chr(int(found[2], 16)), text)
    text = text.replace("<mo>-</mo>", "<mo>−</mo>").replace("<mn>-", "<mn>−")
    text = INDEXED.sub(r"<msub><mi>\1</mi><mi>\2</mi></msub>", text)
    return f"<math>{text}</math>" if len(text) <= LONGEST else f"a formula in {len(text)} characters of MathML"


@lru_cache(maxsize=1)
def _printer() -> Any:
    """Return sympy's printer, with cases and every index of a sum.

    Why: of several indices, sympy's own writes the first alone.
    """
    from sympy.printing import precedence
    from sympy.printing.mathml import MathMLPresentationPrinter as Printer

    base: Any = Printer
    precedence_of: Any = cast("Any", precedence).precedence_traditional

    class WithCases(base):
        def _print_Sum(self, expr: Any) -> Any:  # noqa: N802 - sympy looks printers up by class name
            body, *limits = expr.args
            sums: list[Any] = [self._one_sum(*limit) for limit in reversed(limits)]
            return self._joined("mrow", *sums, self.parenthesize(body, precedence_of(expr)))

        def _one_sum(self, index: Any, low: Any, high: Any) -> Any:
            below = self._joined("mrow", self._print(index), self._sign("mo", "="), self._print(low))
            return self._joined("munderover", self._sign("mo", "\u2211"), below, self._print(high))

        def _print_Piecewise(self, expr: Any) -> Any:  # noqa: N802
            *cases, (last, always) = expr.args
            has_else = always == True  # noqa: E712 - sympy's own
            parts: list[Any] = [self._sign("mo", "(")]
            for value, when in cases if has_else else expr.args:
                between, after = self._sign("mtext", "\u00a0if\u00a0"), self._sign("mtext", "\u00a0else\u00a0")
                parts += [self._print(value), between, self._print(when), after]
            parts += [self._print(last) if has_else else self._sign("mtext", "unknown"), self._sign("mo", ")")]
            return self._joined("mrow", *parts)

        def _joined(self, name: str, *parts: Any) -> Any:
            element = self.dom.createElement(name)
            for part in parts:
                element.appendChild(part)
            return element

        def _sign(self, name: str, text: str) -> Any:
            element = self.dom.createElement(name)
            element.appendChild(self.dom.createTextNode(text))
            return element

    return WithCases({"disable_split_super_sub": True, "mul_symbol": "dot"})
