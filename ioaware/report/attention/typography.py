"""Typeset the formulas inside a sentence.

This covers powers, indices, Greek letters and relations.
"""

from __future__ import annotations

import re
from html import escape

from ioaware.display.text import clean

_SIGNS = (("&lt;=", "≤"), ("&gt;=", "≥"), ("-&gt;", "→"), (" * ", " · "))
_GREEK = re.compile(r"\b(Theta|Omega)(?=\()")
_LETTERS = {"Theta": "Θ", "Omega": "Ω"}
_ROOT = re.compile(r"\bsqrt(?:\((\w+)\)| ([A-Z])\b)")
_POWER = re.compile(r"(?<=[\w)])\^(?:\(([^()]{1,40})\)|(-?\w{1,8}))")
_INDEX = re.compile(r"\b([A-Z])_([A-Za-z0-9])\b")


def typeset(text: str, limit: int = 1000) -> str:
    """Return a sentence as HTML, every character of it escaped first."""
    words = escape(clean(text, limit))
    for sign, shown in _SIGNS:
        words = words.replace(sign, shown)
    words = _GREEK.sub(lambda found: _LETTERS[found[1]], words)
    words = _ROOT.sub(lambda found: f"√{found[1] or found[2]}", words)
    words = _POWER.sub(lambda found: f"<sup>{found[1] or found[2]}</sup>", words)
    return _INDEX.sub(r"\1<sub>\2</sub>", words)
