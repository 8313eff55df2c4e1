"""Sum active lanes and executions of an access over loops and all programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Scope
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Poly, Symbol, Test, Unknown, monomial, parts, poly, total
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.algebra.simplify import simplify
from ioaware.analysis.ir.sums.reindex import join_pairs
from ioaware.analysis.ir.sums.summation import sum_over


@dataclass(frozen=True, slots=True)
class Programs:
    """Grid: an index and a number of programs for each axis."""

    indices: tuple[Symbol, Symbol, Symbol]
    sizes: tuple[Poly, Poly, Poly]

    def sum(self, per_program: Poly) -> Poly:
        """Sum over the whole grid, last axis first.

        Axes that a term uses as one index are joined.
        """
        groups: dict[tuple[tuple[Symbol, ...], tuple[Poly, ...]], list[Poly]] = {}
        for factors, coefficient in per_program.terms.items():
            term, indices, sizes = join_pairs(monomial(factors, coefficient), self.indices, self.sizes)
            groups.setdefault((tuple(indices), tuple(sizes)), []).append(term)
        return simplify(total(_over(total(terms), *axes) for axes, terms in groups.items()))


def _over(body: Poly, indices: Sequence[Symbol], sizes: Sequence[Poly]) -> Poly:
    for index, size in zip(reversed(indices), reversed(sizes), strict=True):
        body = sum_over(body, index, ZERO, size)
    return body


Counted: TypeAlias = tuple[Poly, tuple[Scope, ...], Programs]
"""Count per iteration of these loops in each of these programs.

It is under these conditions.
"""


def total_count(counted: Iterable[Counted]) -> Poly:
    """Return the sum over loops and programs.

    Terms with the same scopes are added before they are summed.
    """
    loops: dict[tuple[tuple[Scope, ...], Programs], list[Poly]] = {}
    for each, scopes, programs in counted:
        loops.setdefault((scopes, programs), []).append(each)
    groups: dict[Programs, list[Poly]] = {}
    for (scopes, programs), terms in loops.items():
        groups.setdefault(programs, []).append(repeat_in_scopes(simplify(total(terms)), scopes))
    return simplify(total(programs.sum(simplify(total(terms))) for programs, terms in groups.items()))


def active_lanes(mask: Poly, shape: Sequence[int]) -> Poly:
    """Return the number of lanes with a mask of 1."""
    mask = resolve_tests(mask)
    for dimension in reversed(range(len(shape))):
        size = poly(shape[dimension])
        mask = sum_over(mask, lane_symbol(dimension, shape[dimension]), ZERO, size) if shape[dimension] > 1 else mask
    return mask


def repeat_in_scopes(count: Poly, scopes: Sequence[Scope]) -> Poly:
    """Return a count inside loops and conditions, summed for the whole program."""
    for scope in reversed(scopes):
        if isinstance(scope, Condition):
            count = count * resolve_tests(scope.truth)
        else:
            count = sum_over(count, scope.index, scope.low, scope.high)
    return simplify(count)


def upper_bound(truth: Poly) -> tuple[Poly, list[Unknown]]:
    """Take every data-dependent test as true.

    Return the bound and the unknowns it depends on.

    A test against an unknown that is the same for all lanes is kept by name: the count is then a formula in it.
    """
    data: list[Unknown] = []
    result = ZERO
    for factors, coefficient in truth.terms.items():
        kept: list[Atom] = []
        for atom in factors:
            inside = unknowns(poly(atom))
            named = isinstance(atom, Test) and not any(_varies_by_lane(unknown) for unknown in inside)
            if inside and not named:
                data += inside
            else:
                kept.append(atom)
        result = result + Poly({tuple(kept): coefficient})
    return (result if not data else _clamped(result)), data


def _clamped(value: Poly) -> Poly:
    """Return 1 for an inclusion-exclusion sum that lost a test and may exceed 1."""
    return value if len(value.terms) == 1 and next(iter(value.terms.values())) == 1 else ONE


def _varies_by_lane(unknown: Unknown) -> bool:
    return unknown.idempotent or any(key.startswith("lane") for key in unknown.free)


def unknowns(value: Poly) -> list[Unknown]:
    """Return every unknown inside."""
    found: list[Unknown] = []
    for atom in value.atoms:
        if isinstance(atom, Unknown):
            found.append(atom)
        else:
            found += [u for part in parts(atom) for u in unknowns(part)]
    return found


__all__ = ["Counted", "Loop", "Programs", "active_lanes", "repeat_in_scopes", "total_count", "unknowns", "upper_bound"]
