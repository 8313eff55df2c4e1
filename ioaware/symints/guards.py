"""Represent the conditions that a formula assumes.

They are guards of host code, and facts that follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Symbol
from torch.utils._sympy.functions import FloorDiv, Max, Mod

from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.analysis.formulas.ranges import Range, implied, ranges
from ioaware.symints.condition_text import SHOWN_AS, condition_text, plain_form
from ioaware.symints.guard_evaluation import compute
from ioaware.symints.powers_of_two import NextPowerOfTwo

_sympy: Any = sympy


@dataclass(frozen=True)
class Condition:
    """Guard of host code on its parameters.

    It is the branch that the code took, or the value of a constexpr.
    """

    holds: Any
    """The condition in torch's functions and the user's parameter names."""
    reason: str
    """`branch at file.py:12`, `constexpr HEAD_DIM`.

    Empty for torch's own guards, such as whether a size is 1.
    """

    def met(self, values: Mapping[str, Number]) -> bool | NDArray[np.bool_]:
        """Return whether the condition holds at these values, at one point or elementwise."""
        found: Any = compute(self.holds, values)
        return np.asarray(found, bool) if isinstance(found, np.ndarray) else bool(found)

    @property
    def _symbols(self) -> frozenset[Any]:
        holds: Any = self.holds
        return frozenset[Any](holds.free_symbols)

    @property
    def names(self) -> frozenset[str]:
        """The parameters of the condition."""
        return frozenset(map(str, self._symbols))

    @property
    def expr(self) -> Any:
        """The condition in sympy's functions; None where it has no such form."""
        return plain_form(self.holds)

    def __str__(self) -> str:
        """Return the condition as Python writes it.

        Of a long one without a plain form, return the parameters.
        """
        return condition_text(self.holds)


def as_remainder(holds: Any) -> Any:
    """Return `n // d * d == n` as `n % d == 0`, and anything else unchanged.

    torch writes the product as `max(1, n // d * d)` in strides.
    """
    for value, product in (holds.args, holds.args[::-1]) if holds.func is sympy.Eq else ():
        if isinstance(product, Max) and len(product.args) == 2 and sympy.S.One in product.args:
            product = next(argument for argument in product.args if argument != 1)
        for floor in product.atoms(FloorDiv):
            divisor = floor.args[1]
            if floor.args[0] == value and divisor.is_Integer and product == divisor * floor:
                return _sympy.Eq(Mod(value, divisor), 0, evaluate=False)
    return holds


def without_redundant(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the distinct conditions without those that equalities imply.

    The equalities are those among the conditions.

    Conditions without parameters, such as those of a specialised parameter, are dropped.
    """
    distinct = {condition.holds: condition for condition in conditions if condition.names}
    equal = {holds.args[0]: holds.args[1] for holds in distinct if isinstance(holds, sympy.Eq)}
    given = param_facts(condition for condition in distinct.values() if isinstance(condition.holds, sympy.Eq))

    def is_independent(condition: Condition) -> bool:
        if isinstance(condition.holds, sympy.Eq):
            return True
        rest = Condition(condition.holds.xreplace(equal), "").expr
        return rest is None or not implied(rest, given.ranges)

    kept = list(_without_wider(list(filter(is_independent, distinct.values()))))
    return tuple(condition for condition in kept if not _is_excluded(condition, kept))


def _is_excluded(condition: Condition, others: Iterable[Condition]) -> bool:
    """Return whether others exclude the one value that a condition excludes.

    Where n > 32, n is not 1.
    """
    if not isinstance(condition.holds, sympy.Ne):
        return False
    symbol, value = cast("tuple[Any, Any]", condition.holds.args)
    if not (symbol.is_Symbol and value.is_Integer):
        return False
    of_one = [other for other in others if other.names == condition.names and not isinstance(other.holds, sympy.Ne)]
    return any(not other.met({str(symbol): int(value)}) for other in of_one)


def _without_wider(conditions: list[Condition]) -> Iterator[Condition]:
    """Drop upper bounds on products that follow from tighter ones.

    Where heads*ceil(n/128) <= 528, no product of these reaches 2**30.
    """
    bounded = {condition: bound for condition in conditions if (bound := _bound(condition.expr)) is not None}
    known_ranges: dict[Symbol, Range] = {}
    redundant: set[Condition] = set()
    for condition, (factors, most) in sorted(bounded.items(), key=lambda pair: pair[1][1]):
        if implied(condition.expr, known_ranges):
            redundant.add(condition)
            continue
        for symbol, step in factors.items():
            before = known_ranges.get(symbol, (1, None))[1]
            known_ranges[symbol] = (1, most * step if before is None else min(before, most * step))
    return (condition for condition in conditions if condition not in redundant)


def _bound(expr: Any) -> tuple[dict[Symbol, int], int] | None:
    """Bound the factors of a product.

    `n*ceil(m/8) <= 100` gives n <= 100 and m <= 800.
    """
    if not isinstance(expr, (sympy.Le, sympy.Lt)):
        return None
    product, most = cast("tuple[Any, Any]", expr.args)
    factors: dict[Symbol, int] = {}
    one: Any = sympy.S.One
    for factor in _sympy.Mul.make_args(product):
        base: Any = factor.base if isinstance(factor, sympy.Pow) else factor
        rounded: Any = base.args[0] if isinstance(base, sympy.ceiling) else None
        share, length = (one, base) if rounded is None else rounded.as_coeff_Mul()
        if not length.is_Symbol or not length.is_positive or share.p != 1:
            return None
        factors[cast(Symbol, length)] = int(share.q)
    return (factors, int(most)) if most.is_Integer else None


@dataclass(frozen=True)
class ParamFacts:
    """Facts that conditions imply for each parameter: an interval and a divisor."""

    ranges: Mapping[Symbol, Range]
    multiples: Mapping[Symbol, int]


NO_FACTS = ParamFacts({}, {})


def param_facts(conditions: Iterable[Condition]) -> ParamFacts:
    """Return the intervals and divisors of single parameters.

    The conditions imply them.
    """
    exprs = [condition.expr for condition in conditions]
    multiples = _multiples(exprs)
    relations = [relation for expr in exprs for relation in _relations(expr)]
    relations += [_sympy.Ge(symbol, factor, evaluate=False) for symbol, factor in multiples.items()]
    return ParamFacts(ranges(relations), multiples)


def _multiples(exprs: Iterable[Any]) -> dict[Symbol, int]:
    """Return the divisor of each parameter, from conditions such as `n % 128 == 0`."""
    found: dict[Symbol, int] = {}
    for expr in exprs:
        if isinstance(expr, sympy.Eq) and expr.args[1] == 0 and isinstance(expr.args[0], sympy.Mod):
            number, divisor = cast("tuple[Any, Any]", expr.args[0].args)
            if isinstance(number, Symbol) and divisor.is_Integer:
                found[number] = math.lcm(found.get(number, 1), int(divisor))
    return found


def _relations(expr: Any) -> Iterator[Any]:
    """Yield relations without rounding.

    They are equivalent to, or follow from, a condition.
    """
    if not isinstance(expr, sympy.Eq):
        yield expr
        factors, most = _bound(expr) or ({}, 0)
        yield from (_sympy.Le(symbol, most * step, evaluate=False) for symbol, step in factors.items())
        return
    rounded, value = cast("tuple[Any, Any]", expr.args)
    if rounded.func is SHOWN_AS[NextPowerOfTwo] and value.is_number and value > 1:
        yield from (rounded.args[0] > value / 2, rounded.args[0] <= value)
    elif isinstance(rounded, sympy.ceiling):
        yield from (rounded.args[0] > value - 1, rounded.args[0] <= value)
    elif isinstance(rounded, sympy.floor):
        yield from (rounded.args[0] >= value, rounded.args[0] < value + 1)
