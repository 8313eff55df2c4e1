"""Divide MathML into pieces between which a line may end.

Browsers do not break lines inside of a `<math>` element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TAG = re.compile(r"<(/?)(\w+)[^>]*>[^<]*")
OPERATOR = re.compile(r"<mo[^>]*>([^<]*)</mo>")
OPENING, CLOSING, SIGNS, AFTER = "([⌈⌊", ")]⌉⌋", "+−", ",·"
ONE_LINE = 30
"""Characters of a formula that is not divided."""
PIECE = 20
"""Least characters of a piece that ends inside of parentheses."""


def breakable(math: str) -> str:
    """Return a `<math>` element as several, each a piece of a long formula.

    A piece begins at each sign of a sum. Inside of parentheses it does where the piece before is long enough, and after a
    comma or a product's dot too. Fractions, powers and the like stay whole.
    """
    if len(_letters(math)) <= ONE_LINE:
        return math
    return " ".join(f"<math>{piece}</math>" for piece in _pieces(math))


def _pieces(math: str) -> Iterator[str]:
    piece, width, level, before = "", 0, 0, "("
    for part in _parts(math):
        found = OPERATOR.fullmatch(part)
        mark = found[1] if found else ""
        infix = f'<mo form="infix">{mark}</mo>'
        ends_before = mark and mark in SIGNS and (not before or before in CLOSING) and (level == 0 or width >= PIECE)
        if piece and ends_before:
            yield piece
            piece, width, part = "", 0, infix
        piece, width = piece + part, width + len(_letters(part))
        level += (mark in OPENING) - (mark in CLOSING) if mark else 0
        before = mark
        if mark and mark in AFTER and width >= PIECE:
            yield piece.removesuffix(part) + infix
            piece, width = "", 0
    if piece:
        yield piece


def _parts(math: str) -> Iterator[str]:
    """Yield the elements of a formula in order, without the rows that group them."""
    part, depth = "", 0
    for found in TAG.finditer(math):
        closing, name = found.groups()
        if depth == 0 and name in ("math", "mrow"):
            continue
        part += found[0]
        depth += -1 if closing else 0 if found[0].endswith("/>") else 1
        if depth == 0:
            yield part
            part = ""


def _letters(math: str) -> str:
    return re.sub(r"<[^>]*>|&\w+;", "", math)
