"""Substitute symbols in expressions, loops and the bounds of indices at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Scope
from ioaware.analysis.ir.algebra.constructors import substitute
from ioaware.analysis.ir.algebra.poly import Poly, Symbol, poly
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.loops.access_totals import Programs


class Rewriting:
    """Replace symbols; an index with changed bounds is replaced everywhere after."""

    def __init__(self, by: Mapping[str, Poly], first: Callable[[Poly], Poly] | None = None) -> None:
        self._by, self._first = dict(by), first

    def __call__(self, value: Poly) -> Poly:
        return resolve_tests(substitute(self._first(value) if self._first else value, self._by))

    def index(self, index: Symbol) -> Symbol:
        """Return the index with rewritten bounds, and replace it from now on."""
        low, high = (None if bound is None else self(bound) for bound in (index.lower, index.upper))
        again = Symbol(index.name, low, high)
        self._by[index.key] = poly(again)
        return again

    def scope(self, scope: Scope) -> Scope:
        """Rewrite a loop or condition; call from the outside in."""
        if isinstance(scope, Condition):
            return Condition(self(scope.truth))
        low, high = self(scope.low), self(scope.high)
        return Loop(self.index(scope.index), low, high)

    def programs(self, programs: Programs) -> Programs:
        """Rewrite the grid; call before its loops."""
        sizes, indices = tuple(map(self, programs.sizes)), tuple(map(self.index, programs.indices))
        return Programs((indices[0], indices[1], indices[2]), (sizes[0], sizes[1], sizes[2]))


@dataclass(frozen=True, slots=True)
class Placed:
    """Expressions with the loops, conditions and programs to sum them over."""

    values: tuple[Poly, ...]
    scopes: tuple[Scope, ...]
    programs: Programs

    def rewritten(self, by: Mapping[str, Poly]) -> Placed:
        """Replace symbols everywhere."""
        if not by:
            return self
        rewrite = Rewriting(by)
        programs = rewrite.programs(self.programs)
        scopes = tuple(rewrite.scope(scope) for scope in self.scopes)
        return Placed(tuple(map(rewrite, self.values)), scopes, programs)


def scope_expressions(scope: Scope) -> list[Poly]:
    """Return the expressions of a loop or condition."""
    return [scope.truth] if isinstance(scope, Condition) else [scope.low, scope.high]


def all_expressions(values: Sequence[Poly], scopes: Sequence[Scope]) -> list[Poly]:
    """Return all expressions of values and of the scopes around them."""
    return [*values, *(expression for scope in scopes for expression in scope_expressions(scope))]
