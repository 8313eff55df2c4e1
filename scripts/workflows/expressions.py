"""Evaluate the expressions of a workflow that decide what runs.

This is a small part of GitHub's language; everything else is refused.

Names, strings in single quotes, `==`, `!=`, `!`, `&&`, `||`, parentheses, and the status functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<name>[A-Za-z_][\w.-]*)|(?P<sign>==|!=|&&|\|\||[!()]))")
WHOLE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
STATUS = ("success", "failure", "always", "cancelled")


class ExpressionError(ValueError):
    """An expression beyond this part of the language."""


def evaluate(text: str, context: Mapping[str, str], *, failed: bool) -> str | bool:
    """Return the value of an expression.

    A name that the context lacks is empty, as GitHub has it.

    Raises `ExpressionError`.
    """
    tokens = _tokens(text)
    value = _either(tokens, context, failed)
    if tokens:
        raise ExpressionError(f"{tokens[0]!r} is not understood in {text!r}")
    return value


def condition(text: str | bool | None, context: Mapping[str, str], *, failed: bool) -> bool:
    """Return whether a step or a job with this `if` runs.

    Without a status function it runs only while nothing failed.
    """
    if text is None or isinstance(text, bool):
        return text is not False and not failed
    inner = WHOLE.fullmatch(text.strip())
    words = inner[1] if inner else text
    value = bool(evaluate(words, context, failed=failed))
    return value and (not failed or any(f"{name}(" in words for name in STATUS))


def interpolate(text: str, context: Mapping[str, str]) -> str:
    """Return text with the value of each `${{ ... }}`."""
    return WHOLE.sub(lambda found: str(evaluate(found[1], context, failed=False)), text)


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    place = 0
    while text[place:].strip():
        match = TOKEN.match(text, place)
        if match is None:
            raise ExpressionError(f"{text[place:]!r} is not understood")
        found.append(match[0].strip())
        place = match.end()
    return found


def _either(tokens: list[str], context: Mapping[str, str], failed: bool) -> str | bool:
    value = _both(tokens, context, failed)
    while tokens[:1] == ["||"]:
        tokens.pop(0)
        other = _both(tokens, context, failed)
        value = value or other
    return value


def _both(tokens: list[str], context: Mapping[str, str], failed: bool) -> str | bool:
    value = _compared(tokens, context, failed)
    while tokens[:1] == ["&&"]:
        tokens.pop(0)
        other = _compared(tokens, context, failed)
        value = value and other
    return value


def _compared(tokens: list[str], context: Mapping[str, str], failed: bool) -> str | bool:
    value = _single(tokens, context, failed)
    if tokens[:1] and tokens[0] in ("==", "!="):
        wanted = tokens.pop(0) == "=="
        return (value == _single(tokens, context, failed)) == wanted
    return value


def _single(tokens: list[str], context: Mapping[str, str], failed: bool) -> str | bool:
    word = tokens.pop(0) if tokens else ""
    if word == "!":
        return not _single(tokens, context, failed)
    if word == "(":
        value = _either(tokens, context, failed)
        if not tokens or tokens.pop(0) != ")":
            raise ExpressionError("a parenthesis is not closed")
        return value
    if word in STATUS and tokens[:2] == ["(", ")"]:
        del tokens[:2]
        return {"success": not failed, "failure": failed, "always": True, "cancelled": False}[word]
    if word.startswith("'"):
        return word[1:-1].replace("''", "'")
    if not word or not word[0].isalpha() or tokens[:1] == ["("]:
        raise ExpressionError(f"{word!r} is not understood")
    return context.get(word, "")
