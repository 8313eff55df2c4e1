"""From records to counts: how many lanes are active over all programs, and for how many executions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Scope
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Poly, Symbol, Test, Unknown, monomial, parts, poly, total
from ioaware.analysis.ir.algebra.predicates import decided
from ioaware.analysis.ir.algebra.simplify import simplified
from ioaware.analysis.ir.sums.reindex import join_pairs
from ioaware.analysis.ir.sums.summation import sum_over


@dataclass(frozen=True, slots=True)
class Programs:
    """The grid: an index for each axis and how many programs it has."""

    indices: tuple[Symbol, Symbol, Symbol]
    sizes: tuple[Poly, Poly, Poly]

    def sum(self, per_program: Poly) -> Poly:
        """Over the whole grid, the last axis first; axes that a term uses as one index are one."""
        groups: dict[tuple[tuple[Symbol, ...], tuple[Poly, ...]], list[Poly]] = {}
        for factors, coefficient in per_program.terms.items():
            term, indices, sizes = join_pairs(monomial(factors, coefficient), self.indices, self.sizes)
            groups.setdefault((tuple(indices), tuple(sizes)), []).append(term)
        return simplified(total(_over(total(terms), *axes) for axes, terms in groups.items()))


def _over(body: Poly, indices: Sequence[Symbol], sizes: Sequence[Poly]) -> Poly:
    for index, size in zip(reversed(indices), reversed(sizes), strict=True):
        body = sum_over(body, index, ZERO, size)
    return body


Counted: TypeAlias = tuple[Poly, tuple[Scope, ...], Programs]
"""So much in each iteration of these loops, under these conditions, in each of these programs."""


def over_all(counted: Iterable[Counted]) -> Poly:
    """The sum over loops and programs: what is summed over the same ones is put together first."""
    loops: dict[tuple[tuple[Scope, ...], Programs], list[Poly]] = {}
    for each, scopes, programs in counted:
        loops.setdefault((scopes, programs), []).append(each)
    groups: dict[Programs, list[Poly]] = {}
    for (scopes, programs), terms in loops.items():
        groups.setdefault(programs, []).append(repeated(simplified(total(terms)), scopes))
    return simplified(total(programs.sum(simplified(total(terms))) for programs, terms in groups.items()))


def active_lanes(mask: Poly, shape: Sequence[int]) -> Poly:
    """How many lanes of a tensor have a mask of 1."""
    mask = decided(mask)
    for dimension in reversed(range(len(shape))):
        size = poly(shape[dimension])
        mask = sum_over(mask, lane_symbol(dimension, shape[dimension]), ZERO, size) if shape[dimension] > 1 else mask
    return mask


def repeated(count: Poly, scopes: Sequence[Scope]) -> Poly:
    """A count inside loops and conditions, for the whole program."""
    for scope in reversed(scopes):
        if isinstance(scope, Condition):
            count = count * decided(scope.truth)
        else:
            count = sum_over(count, scope.index, scope.low, scope.high)
    return simplified(count)


def at_most(truth: Poly) -> tuple[Poly, list[Unknown]]:
    """A mask or condition with every test that data decide taken as met, and the unknowns that decide.

    A test against an unknown that is the same for all lanes keeps it as a name: the count is then a formula in it.
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
    """An inclusion and exclusion that lost a test may exceed 1: then everything is taken."""
    return value if len(value.terms) == 1 and next(iter(value.terms.values())) == 1 else ONE


def _varies_by_lane(unknown: Unknown) -> bool:
    return unknown.idempotent or any(key.startswith("lane") for key in unknown.over)


def unknowns(value: Poly) -> list[Unknown]:
    """Every unknown inside."""
    found: list[Unknown] = []
    for atom in value.atoms:
        if isinstance(atom, Unknown):
            found.append(atom)
        else:
            found += [u for part in parts(atom) for u in unknowns(part)]
    return found


__all__ = ["Counted", "Loop", "Programs", "active_lanes", "at_most", "over_all", "repeated", "unknowns"]
