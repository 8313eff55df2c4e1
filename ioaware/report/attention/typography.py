"""Typeset the formulas inside a sentence as MathML.

A formula is the longest run of numbers, letters, indices, powers, functions and relations between two words of the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from ioaware.display.text import clean

NAMES = frozenset({"dQ", "dK", "dV", "dO", "dP", "dS", "QK", "PV", "blockIdx", "lse", "inf", "Dc1", "Dc2"})
FUNCTIONS = frozenset({"softmax", "rowsum", "diag", "exp", "log", "min", "max", "sum", "ceil", "sqrt", "Theta", "Omega"})
SIGNS = {"<=": "≤", ">=": "≥", "->": "→", ">>": "≫", "<<": "≪", "*": "·", "-": "−"}
ASCII = {name: SIGNS[name] for name in ("<=", ">=", "->")} | {"sqrt": "√"}
"""What is written for a sign that is outside of formulas."""
LETTERS = {"Theta": "Θ", "Omega": "Ω", "sum": "∑", "inf": "∞"}
ARTICLES = frozenset("aAI")
ALONE = frozenset("ds")
"""Small letters that are symbols even where they stand alone."""
DEEPEST = 12
"""Most brackets inside each other; a deeper formula stays text."""
GAP = '<mspace width="0.18em"></mspace>'
TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?:\.\d+)?(?:e[-+]\d+)?)|(?P<indexed>(?:sum|min|max)_\w)|(?P<name>[^\W\d_]\w*(?:['’][^\W_]\w*)?)"
    r"|(?P<sign><=|>=|->|>>|<<|[-+*/=<>≤≥·→])|(?P<script>[\^_])|(?P<open>[(\[])|(?P<close>[)\]])|(?P<comma>,)|(?P<bar>\|)"
    r"|(?P<accent>['~](?![^\W_]))|(?P<other>.)",
    re.DOTALL,
)
SINGLE = re.compile(r"(?P<letter>[^\W\d_])(?P<digits>\d*)(?=_|$)")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the sentence.

    Its kind is a group of `TOKEN`, or `word` for a name that is no symbol.
    """

    kind: str
    text: str


@dataclass(slots=True)
class Run:
    """MathML of consecutive tokens, where it ends, and what was in it."""

    parts: list[str] = field(default_factory=list[str])
    end: int = 0
    symbols: list[str] = field(default_factory=list[str])
    relations: int = 0

    @property
    def is_formula(self) -> bool:
        """Whether this is more than a number or a letter of a sentence."""
        letters = [one for one in self.symbols if not one[0].isdigit()]
        if self.relations or len(self.symbols) > 1:
            return bool(letters) or "^" in self.symbols
        return any(len(one) == 1 and (one.isupper() or one in ALONE) for one in letters)


def typeset(text: str, limit: int = 1000) -> str:
    """Return a sentence as HTML, escaped, with its formulas as MathML."""
    tokens = _tokens(clean(text, limit).replace("√", "sqrt "))
    parts: list[str] = []
    at = 0
    while at < len(tokens):
        run = None if _is_hyphenated(tokens, at) else _run(tokens, at, 0, inside=False)
        if run is not None and run.end > at and run.is_formula:
            parts.append(f"<math>{''.join(run.parts)}</math>")
            at = run.end
        else:
            end = at + 1 if run is None or run.end <= at else run.end
            parts += [escape(ASCII.get(one.text, one.text)) for one in tokens[at:end]]
            at = end
    return "".join(parts)


def _tokens(text: str) -> list[Token]:
    """Split a sentence; `T_c` is three tokens, `flash2_bwd` is one word."""
    found: list[Token] = []
    for match in TOKEN.finditer(text):
        kind, said = str(match.lastgroup), match[0]
        possessive = bool(found) and found[-1].text in ("'", "’")
        single = SINGLE.match(said) if kind == "name" and not possessive else None
        if single is not None:
            found.append(Token("name", single[0]))
            if single.end() < len(said):
                found += [Token("script", "_"), *[Token("index", rest) for rest in (said[single.end() + 1 :],) if rest]]
        elif kind == "name":
            found.append(Token("name" if said in NAMES | FUNCTIONS else "word", said))
        else:
            found.append(Token(kind, said))
    return found


def _run(tokens: Sequence[Token], at: int, depth: int, *, inside: bool) -> Run | None:
    """Return the longest formula from a place, or None where brackets hold words.

    `inside` brackets a formula ends at the closing one.
    """
    run = Run(end=at)
    signs: list[str] = []
    spaced = follows_sign = False
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "space" and (run.parts or inside):
            at, spaced = at + 1, True
            continue
        if token.kind == "close" and inside:
            run.end = at
            return run
        if token.kind in ("sign", "bar") or (token.text in (",", ":") and inside):
            if token.kind == "sign" and not inside and not run.parts and token.text != "-":
                break
            signs.append(f"<mo>{escape(SIGNS.get(token.text, token.text))}</mo>")
            at, spaced = at + 1, False
            if token.kind == "bar" or inside:
                run.parts, run.end, signs, follows_sign = [*run.parts, *signs], at, [], True
            continue
        factor = _factor(tokens, at, depth)
        if factor is None or (token.text in ARTICLES and not _before_a_sign(tokens, at + 1)):
            if inside:
                return None
            break
        if spaced and run.parts and not signs and not follows_sign:
            run.parts.append(GAP)
        run.parts += [*signs, *factor.parts]
        run.symbols += factor.symbols
        run.relations += factor.relations + len(signs)
        signs = []
        at = run.end = factor.end
        spaced = follows_sign = False
    return None if inside else run


def _factor(tokens: Sequence[Token], at: int, depth: int) -> Run | None:
    """Return a number, symbol, function or group with its index and power."""
    token = tokens[at]
    if token.kind == "number":
        base = Run([f"<mn>{token.text}</mn>"], at + 1, [token.text])
    elif token.kind == "indexed":
        name, _, index = token.text.partition("_")
        base = Run([f"<msub><mo>{LETTERS.get(name, name)}</mo><mi>{escape(index)}</mi></msub>"], at + 1, [name])
    elif token.kind == "name" and token.text in FUNCTIONS:
        base = _function(tokens, at, depth)
    elif token.kind == "name":
        base = Run([_symbol(token.text)], at + 1, [token.text])
    elif token.kind == "open":
        base = _group(tokens, at, depth, token.text)
    else:
        return None
    return None if base is None else _scripts(tokens, base, depth)


def _function(tokens: Sequence[Token], at: int, depth: int) -> Run | None:
    name = tokens[at].text
    behind = at + 1 + (name in ("sqrt", "sum") and _kind(tokens, at + 1) == "space")
    group = _group(tokens, behind, depth, "⌈" if name == "ceil" else "(") if _kind(tokens, behind) == "open" else None
    if name == "sqrt":
        root = group or (_factor(tokens, behind, depth + 1) if behind < len(tokens) and depth < DEEPEST else None)
        if root is None:
            return None
        inner = root.parts[1:-1] if group else root.parts
        return Run([f"<msqrt>{''.join(inner)}</msqrt>"], root.end, ["sqrt", *root.symbols], 1)
    said = "" if name == "ceil" else f"<mi>{LETTERS.get(name, name)}</mi>"
    if group is not None:
        return Run([said, *group.parts], group.end, [name, *group.symbols], 1 + group.relations)
    return (
        Run([f"<mo>{LETTERS[name]}</mo>"], at + 1, ["∑"])
        if name == "sum" and _kind(tokens, behind) in ("name", "bar")
        else None
    )


def _group(tokens: Sequence[Token], at: int, depth: int, opening: str) -> Run | None:
    """Return a bracketed formula with its brackets; None where words are inside."""
    inner = _run(tokens, at + 1, depth + 1, inside=True) if depth < DEEPEST else None
    if inner is None:
        return None
    closing = "⌉" if opening == "⌈" else tokens[inner.end].text
    parts = [f"<mo>{opening}</mo>", *inner.parts, f"<mo>{closing}</mo>"]
    return Run(parts, inner.end + 1, inner.symbols, inner.relations)


def _scripts(tokens: Sequence[Token], base: Run, depth: int) -> Run:
    """Add the accent, the index and the power behind a factor."""
    shown, end, symbols, relations = "".join(base.parts), base.end, list(base.symbols), base.relations
    if _kind(tokens, end) == "accent":
        prime = tokens[end].text == "'"
        shown = f"<msup>{shown}<mo>′</mo></msup>" if prime else f'<mover accent="true">{shown}<mo>~</mo></mover>'
        end, relations = end + 1, relations + 1
    for sign, element in (("_", "msub"), ("^", "msup")):
        if end >= len(tokens) or tokens[end].kind != "script" or tokens[end].text != sign:
            continue
        minus = _kind(tokens, end + 1) == "sign" and tokens[end + 1].text == "-"
        script = _script(tokens, end + 1 + minus, depth)
        if script is None:
            break
        sign_shown = "<mo>−</mo>" if minus else ""
        parts = [*([sign_shown] if sign_shown else []), *script.parts]
        shown = f"<{element}>{_row([shown])}{_row(parts)}</{element}>"
        end, relations = script.end, relations + 1
        symbols.append(sign)
    return Run([shown], end, symbols, relations) if end > base.end else base


def _row(parts: Sequence[str]) -> str:
    """Return the parts as one element."""
    whole = "".join(parts)
    return whole if len(parts) == 1 and whole.count("</m") == 1 else f"<mrow>{whole}</mrow>"


def _script(tokens: Sequence[Token], at: int, depth: int) -> Run | None:
    """Return an index or a power: a group without brackets, or one symbol."""
    if _kind(tokens, at) == "open":
        group = _group(tokens, at, depth, tokens[at].text)
        return None if group is None else Run(group.parts[1:-1], group.end)
    if _kind(tokens, at) in ("index", "word"):
        return Run([f"<mi>{escape(tokens[at].text)}</mi>"], at + 1)
    return _factor(tokens, at, depth + 1) if at < len(tokens) and depth < DEEPEST else None


def _symbol(name: str) -> str:
    """Return a letter, with its digits as an index: `b1` is b with index 1."""
    single = SINGLE.fullmatch(name)
    if single is None or not single["digits"]:
        return f"<mi>{escape(LETTERS.get(name, name))}</mi>"
    return f"<msub><mi>{escape(single['letter'])}</mi><mn>{single['digits']}</mn></msub>"


def _kind(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].kind if at < len(tokens) else ""


def _is_hyphenated(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a hyphen joins a token to a word, as in FlashAttention-2."""
    return any(tokens[one].text == "-" and tokens[one - 1].kind == "word" for one in (at, at - 1) if one > 0)


def _before_a_sign(tokens: Sequence[Token], at: int) -> bool:
    at += _kind(tokens, at) == "space"
    return _kind(tokens, at) in ("sign", "script")
