"""Read a formula from text, as `ioaware derive` prints it.

It is arithmetic over known names.

A recursive-descent parser of a closed grammar builds the expression from the formulas' own functions. Nothing is evaluated as
Python, and sympy's parser, which executes code, takes no part. Length, depth, digits, powers and terms are bounded before
anything is built, so that a hostile text is refused at once.

    sum     := product (('+' | '-') product)*
    product := signed (('*' | '/' | '//' | '%') signed)*
    signed  := '-' signed | power
    power   := atom ('**' integer)?
    atom    := integer | name | call | '(' sum ')' | '[' relation ']' | '(' sum 'if' condition 'else' (sum | 'unknown') ')'
    call    := min | max | ceil | floor | cdiv '(' sum, ... ')' | 'sum(' sum ('for' name 'in range(' sum, ... ')')+ ')'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ioaware.display.text import shorten
from ioaware.errors import UsageError
from ioaware.gate.formulas.sum_ranges import Limit, outermost_first

LONGEST_TEXT, DEEPEST, MAX_TERMS = 20_000, 40, 4_000
LARGEST_POWER, MAX_DIGITS, MAX_BITS = 16, 30, 4_096
TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:@[A-Za-z0-9_./<>-]+:[0-9]+)?'*)"
    r"|(?P<sign>\*\*|//|>=|<=|==|!=|[-+*/%()\[\],<>]))"
)
WORDS = frozenset({"if", "else", "for", "in", "and", "range", "min", "max", "ceil", "floor", "cdiv", "sum", "unknown"})
EXAMPLE = "A formula is arithmetic over the sizes, as in 2*rows*cols + 4*ceil(rows/128)*cols."


@dataclass(frozen=True, slots=True)
class _Term:
    """An expression with bounds of its expanded form.

    The bounds are its degree and its number of terms.
    """

    expr: Any
    degree: int = 1
    terms: int = 1


def read_formula(text: str, names: Mapping[str, Any]) -> Any:
    """Return the expression of `text`; `names` are the symbols that it may use.

    Raises `UsageError` for anything outside the grammar, an unknown name, and a text beyond the limits.
    """
    return _Reader(text, names).formula()


def read_conditions(text: str, names: Mapping[str, Any]) -> list[tuple[Any, str, Any]]:
    """Return the relations of `a >= b and c % 8 == 0` as (left, sign, right).

    Raises `UsageError` as `read_formula` does.
    """
    return _Reader(text, names).conditions()


class _Reader:
    """One text with its tokens, read from left to right."""

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        self._text = text
        if type(text) is not str:
            raise UsageError(f"a formula is text, not {shorten(repr(text), 60)}", EXAMPLE)
        if len(text) > LONGEST_TEXT:
            raise UsageError(f"a formula of {len(text)} characters is longer than {LONGEST_TEXT}", EXAMPLE)
        self._names = dict(names)
        self._tokens = self._split()
        self._at = self._depth = 0

    def formula(self) -> Any:
        """Read the whole text as one expression."""
        found = self._sum()
        if self._next:
            raise self._refusal(f"{self._next!r} is not expected")
        return found.expr

    def conditions(self) -> list[tuple[Any, str, Any]]:
        """Read the whole text as relations joined by `and`."""
        found = [self._relation()]
        while self._accept("and"):
            found.append(self._relation())
        if self._next:
            raise self._refusal(f"{self._next!r} is not expected")
        return found

    def _split(self) -> list[str]:
        tokens: list[str] = []
        at, end = 0, len(self._text.rstrip())
        while at < end:
            match = TOKEN.match(self._text, at)
            if match is None:
                raise self._refusal(f"{self._text[at:].lstrip()[:1]!r} is not part of a formula")
            tokens.append(match[0].lstrip())
            at = match.end()
        return tokens

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        word = self._next
        self._at += 1
        return word

    def _accept(self, *tokens: str) -> str:
        return self._take() if self._next in tokens and self._next else ""

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._refusal(f"{word!r} is expected" + (f" before {self._next!r}" if self._next else " at the end"))

    def _refusal(self, why: str) -> UsageError:
        return UsageError(f"{shorten(self._text, 200)!r} is no formula: {why}", EXAMPLE)

    def _bounded(self, expr: Callable[[], Any], degree: int, terms: int) -> _Term:
        """Build the expression unless its expanded form is too large.

        Too many terms and too high a power are refused.
        """
        if terms > MAX_TERMS or degree > 2 * LARGEST_POWER:
            raise self._refusal("it has too many terms or too high a power")
        made = expr()
        if made.is_Rational and max(abs(made.p), made.q).bit_length() > MAX_BITS:
            raise self._refusal(f"a number has more than {MAX_BITS} bits")
        return _Term(made, degree, terms)

    def _sum(self) -> _Term:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._refusal(f"it is nested more than {DEEPEST} deep")
        total = self._product()
        while sign := self._accept("+", "-"):
            other, left = self._product(), total
            add = sign == "+"
            total = self._bounded(
                lambda left=left, other=other, add=add: left.expr + other.expr if add else left.expr - other.expr,
                max(left.degree, other.degree),
                left.terms + other.terms,
            )
        self._depth -= 1
        return total

    def _product(self) -> _Term:
        total = self._signed()
        while sign := self._accept("*", "/", "//", "%"):
            other, left = self._signed(), total
            if sign == "*":
                total = self._bounded(
                    lambda left=left, other=other: left.expr * other.expr,
                    left.degree + other.degree,
                    left.terms * other.terms,
                )
            else:
                total = self._divided(left, other, sign)
        return total

    def _divided(self, left: _Term, right: _Term, sign: str) -> _Term:
        import sympy

        kinds: Any = sympy
        if right.expr == 0:
            raise self._refusal("it divides by zero")
        if sign == "%":
            return _Term(kinds.Mod(left.expr, right.expr))
        ratio = left.expr / right.expr
        return _Term(kinds.floor(ratio)) if sign == "//" else _Term(ratio, left.degree + right.degree, left.terms)

    def _signed(self) -> _Term:
        negative = False
        while self._accept("-"):
            negative = not negative
        base = self._atom()
        if self._accept("**"):
            power = self._number(self._take())
            if not 0 <= power <= LARGEST_POWER:
                raise self._refusal(f"a power is at most {LARGEST_POWER}")
            inner = base
            base = self._bounded(lambda: inner.expr**power, inner.degree * power, inner.terms**power)
        return _Term(-base.expr, base.degree, base.terms) if negative else base

    def _number(self, word: str) -> int:
        if not word.isdigit():
            raise self._refusal("a power is an integer")
        if len(word) > MAX_DIGITS:
            raise self._refusal(f"a number has at most {MAX_DIGITS} digits")
        return int(word)

    def _atom(self) -> _Term:
        import sympy

        word = self._take()
        if word.isdigit():
            return _Term(sympy.Integer(self._number(word)), 0)
        if word == "(":
            return self._parenthesis()
        if word == "[":
            left, sign, right = self._relation()
            self._expect("]")
            if sign == "!=":
                raise self._refusal("a bracket has no '!='")
            return _Term(_bracket(left, sign, right))
        if word in CALLS and self._next == "(":
            self._take()
            return self._series() if word == "sum" else self._call(word)
        if word in self._names and word not in WORDS:
            return _Term(self._names[word])
        known = ", ".join(sorted(name for name in self._names)) or "none"
        raise self._refusal(f"{word!r} is no name here, of {known}" if word else "it ends too early")

    def _parenthesis(self) -> _Term:
        """Read `(sum)` or `(value if condition else value ...)`."""
        import sympy

        kinds: Any = sympy
        cases: list[tuple[Any, Any]] = []
        value = self._sum()
        terms, degree = value.terms, value.degree
        while self._accept("if"):
            cases.append((value.expr, self._condition()))
            self._expect("else")
            if self._accept("unknown"):
                self._expect(")")
                return _Term(kinds.Piecewise(*cases, evaluate=False))
            value = self._sum()
        self._expect(")")
        if not cases:
            return _Term(value.expr, degree, terms)
        return _Term(kinds.Piecewise(*cases, (value.expr, True), evaluate=False))

    def _condition(self) -> Any:
        import sympy

        kinds: Any = sympy
        parts = [self._relation()]
        while self._accept("and"):
            parts.append(self._relation())
        if any(sign == "!=" for _, sign, _ in parts):
            raise self._refusal("a case has no condition with '!='")
        relations = [_RELATIONS[sign](kinds)(left, right, evaluate=False) for left, sign, right in parts]
        return kinds.And(*relations) if len(relations) > 1 else relations[0]

    def _relation(self) -> tuple[Any, str, Any]:
        left = self._sum().expr
        sign = self._accept(*_RELATIONS)
        if not sign:
            raise self._refusal(f"a comparison is expected before {self._next!r}")
        return left, sign, self._sum().expr

    def _call(self, name: str) -> _Term:
        parts = [self._sum().expr]
        while self._accept(","):
            parts.append(self._sum().expr)
        self._expect(")")
        count = len(parts)
        if count != {"ceil": 1, "floor": 1, "cdiv": 2}.get(name, max(count, 2)) or (name == "cdiv" and parts[-1] == 0):
            raise self._refusal(f"{name} takes other arguments")
        return _Term(_called(name, parts))

    def _series(self) -> _Term:
        """Read `body for i in range(low, end) ...)`.

        Indices are read before the body, which uses them. The outermost range is written first; snapshots of earlier versions
        have the innermost first, which a range that uses another one's index shows.
        """
        import sympy

        from ioaware.analysis.formulas.functions import Series, index

        outer = dict(self._names)
        indices = self._indices_ahead()
        self._names |= {name: index(name) for name in indices}
        body = self._sum().expr
        limits: list[Limit] = []
        while self._accept("for"):
            symbol = self._names[self._take()]
            self._expect("in")
            self._expect("range")
            self._expect("(")
            first = self._sum().expr
            low, end = (first, self._sum().expr) if self._accept(",") else (sympy.Integer(0), first)
            self._expect(")")
            limits.append((symbol, low, end - 1))
        self._expect(")")
        self._names = outer
        if not limits:
            raise self._refusal("a sum names its range: sum(i for i in range(n))")
        found = outermost_first(limits)
        if found is None:
            raise self._refusal("each range of a sum needs another one's index")
        return _Term(_made(Series, body, found[::-1]))

    def _indices_ahead(self) -> list[str]:
        """Return the names after `for` up to the closing parenthesis of this sum."""
        found: list[str] = []
        depth = 0
        for word, following in zip(self._tokens[self._at :], [*self._tokens[self._at + 1 :], ""], strict=True):
            depth += (word in ("(", "[")) - (word in (")", "]"))
            if depth < 0:
                break
            if word == "for" and depth == 0:
                if not following.isidentifier() or following in WORDS:
                    raise self._refusal(f"{following!r} is no index")
                found.append(following)
        return found


def _made(series: Any, body: Any, limits: list[Limit]) -> Any:
    return series(body, *limits)


def _bracket(left: Any, sign: str, right: Any) -> Any:
    """Return [left >= right] as the formulas have it.

    It is 1 where left - right is not negative.
    """
    from ioaware.analysis.formulas.functions import Holds

    holds: Any = Holds
    above, below = holds(left - right), holds(right - left)
    strictly = {">": lambda: holds(left - right - 1), "<": lambda: holds(right - left - 1)}
    if sign in strictly:
        return strictly[sign]()
    return {">=": above, "<=": below, "==": above * below}[sign]


EXTREMES: Mapping[str, str] = {"min": "Min", "max": "Max"}
ROUNDINGS: Mapping[str, str] = {"ceil": "ceiling", "floor": "floor", "cdiv": "ceiling"}
CALLS = frozenset({*EXTREMES, *ROUNDINGS, "sum"})


def _called(name: str, parts: list[Any]) -> Any:
    import sympy

    if name in EXTREMES:
        return getattr(sympy, EXTREMES[name])(*parts, evaluate=False)  # sympy compares all pairs otherwise
    return getattr(sympy, ROUNDINGS[name])(parts[0] if len(parts) == 1 else parts[0] / parts[1])


_RELATIONS: Mapping[str, Callable[[Any], Any]] = {
    ">=": lambda kinds: kinds.Ge,
    "<=": lambda kinds: kinds.Le,
    "==": lambda kinds: kinds.Eq,
    ">": lambda kinds: kinds.Gt,
    "<": lambda kinds: kinds.Lt,
    "!=": lambda kinds: kinds.Ne,
}
