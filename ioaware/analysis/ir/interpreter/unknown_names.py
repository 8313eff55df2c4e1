"""Name unknowns for display by the tensor and the line.

The offset is added where one line loads several values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

from ioaware.analysis.formulas.printing import show
from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Recorder, Scope
from ioaware.analysis.ir.accesses.values import Value, index_symbols
from ioaware.analysis.ir.algebra.constructors import rebuild
from ioaware.analysis.ir.algebra.poly import Atom, Poly, Sum, Symbol, Unknown, parts, poly
from ioaware.analysis.ir.algebra.sympy_bridge import LongFormulaError, to_sympy
from ioaware.analysis.ir.mlir.types import Type

LONGEST_OFFSET = 40
"""Most characters of an offset in a name; a longer offset is shown as a digest."""


def varies(unknown: Unknown) -> bool:
    """Return whether a value may differ between programs, iterations or lanes."""
    return bool(index_symbols([Value(Type((), "i32"), arg) for arg in unknown.args]))


def name_unknowns(record: Recorder) -> None:
    """Give different unknowns of one line different names, in all records."""
    alike: dict[str, dict[str, Unknown]] = {}
    for expression in _expressions(record):
        for unknown in _unknowns(expression):
            alike.setdefault(unknown.name.removeprefix("not "), {})[unknown.key] = unknown
    names: dict[str, str] = {}
    for name, group in alike.items():
        if len({_identity(unknown) for unknown in group.values()}) > 1:
            names.update(_distinct(name, list(group.values())))
    if names:
        _rename(record, names)


def _identity(unknown: Unknown) -> tuple[str, tuple[str, ...]]:
    return unknown.source, tuple(map(_text, unknown.args))


def _distinct(name: str, group: list[Unknown]) -> dict[str, str]:
    """Return a name for the key of each unknown.

    It is by its first argument, else all, else by number.
    """
    base, _, place = name.rpartition("@")
    identities = {_identity(unknown): unknown for unknown in sorted(group, key=lambda unknown: unknown.key)}
    shown = {identity: _short(identity[1][0] if identity[1] else "") for identity in identities}
    if len(set(shown.values())) < len(shown):
        shown = {identity: _short(", ".join(identity[1])) for identity in identities}
    counts: dict[str, int] = {}
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for identity, text in shown.items():
        counts[text] = counts.get(text, 0) + 1
        more = f"#{counts[text]}" if counts[text] > 1 else ""
        found[identity] = f"{base}{f'[{text}]' if text else ''}{more}@{place}"
    return {unknown.key: ("not " if unknown.name.startswith("not ") else "") + found[_identity(unknown)] for unknown in group}


def _text(expression: Poly) -> str:
    """Return an expression as text, without the line of loaded values.

    These are values that are loaded themselves.
    """
    try:
        return re.sub(r"@[\w.]+:\d+", "", show(to_sympy(expression)))
    except LongFormulaError:
        return expression.key  # only its hash is shown


def _short(text: str) -> str:
    plain = len(text) <= LONGEST_OFFSET and "=" not in text
    return text if plain else f"..{sha256(text.encode()).hexdigest()[:6]}"


def _unknowns(expression: Poly) -> Iterator[Unknown]:
    for atom in expression.atoms:
        if isinstance(atom, Unknown):
            yield atom
        for part in atom.args if isinstance(atom, Unknown) else parts(atom):
            yield from _unknowns(part)


def _expressions(record: Recorder) -> Iterator[Poly]:
    for touch in record.touches:
        yield touch.mask
        yield touch.target.offset
        yield from _of_scopes(touch.scopes)
    for product in record.products:
        yield from _of_scopes(product.scopes)


def _of_scopes(scopes: tuple[Scope, ...]) -> Iterator[Poly]:
    for scope in scopes:
        yield from (scope.truth,) if isinstance(scope, Condition) else (scope.low, scope.high)


def _rename(record: Recorder, names: dict[str, str]) -> None:
    def leaf(atom: Atom) -> Poly | None:
        if isinstance(atom, Symbol):
            low, high = (None if end is None else again(end) for end in (atom.lower, atom.upper))
            return None if (low, high) == (atom.lower, atom.upper) else poly(Symbol(atom.name, low, high))
        if isinstance(atom, Sum):
            index = again(poly(atom.index)).atom
            bound = index if isinstance(index, Symbol) else atom.index
            return poly(Sum(again(atom.body), bound, again(atom.low), again(atom.high)))
        if not isinstance(atom, Unknown):
            return None
        args = [again(arg) for arg in atom.args]
        return poly(atom.renamed(names.get(atom.key, atom.name)).at(args))

    def again(value: Poly) -> Poly:
        return rebuild(value, leaf)

    def scope_again(scope: Scope) -> Scope:
        if isinstance(scope, Condition):
            return Condition(again(scope.truth))
        index = again(poly(scope.index)).atom
        source = None if scope.source is None else (again(scope.source[0]), again(scope.source[1]), again(scope.source[2]))
        return Loop(index if isinstance(index, Symbol) else scope.index, again(scope.low), again(scope.high), source)

    def scopes_again(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
        return tuple(map(scope_again, scopes))

    record.touches = [
        replace(
            touch,
            mask=again(touch.mask),
            target=replace(touch.target, offset=again(touch.target.offset), condition=again(touch.target.condition)),
            scopes=scopes_again(touch.scopes),
        )
        for touch in record.touches
    ]
    record.products = [replace(product, scopes=scopes_again(product.scopes)) for product in record.products]
