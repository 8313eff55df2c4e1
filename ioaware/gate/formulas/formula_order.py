"""Compare two formulas over the sizes.

Prove that they are equal or ordered, or find sizes at which they differ.

A proof is one of the engine's algebra and holds at every positive size. Without one, the formulas are evaluated at the gate's
points and at sizes drawn from a fixed sequence. What is equal at all of those and not proven is INCOMPARABLE, never SAME.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.gate.verdict import Verdict

Point = Mapping[str, int]
SECONDS = 2.0
"""Limit of one evaluation.

A formula with long sums is not evaluated at large sizes.
"""
DRAWS, SEED = 160, 20261122
SCALES = (
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    48,
    64,
    100,
    127,
    128,
    129,
    255,
    256,
    257,
    500,
    1000,
    1024,
    1536,
    2048,
    4096,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on a new formula, with its reason.

    Both values at the points of the gate are included (None: not evaluated).
    """

    verdict: Verdict
    reason: str
    values: tuple[tuple[Point, int | None, int | None], ...] = ()
    witness: tuple[Point, int, int] | None = None
    """Sizes elsewhere with the old and the new value, where those decide."""


def proven_equal(old: Any, new: Any) -> bool:
    """Prove that two expressions have the same value at every positive size.

    False means not proven.
    """
    if old == new:
        return True
    difference = _polynomial(old, new)
    if difference is not None and not difference.terms:
        return True
    if proven_at_most(old, new) and proven_at_most(new, old):
        return True
    import sympy

    kinds: Any = sympy
    return bool(not old.has(sympy.Piecewise) and not new.has(sympy.Piecewise) and kinds.expand(old - new) == 0)


def proven_at_most(low: Any, high: Any, least: Point | None = None) -> bool:
    """Prove `low` <= `high` at every positive size, or at every size from `least` on.

    False means not proven.
    """
    from ioaware.analysis.ir.algebra.constructors import substitute
    from ioaware.analysis.ir.algebra.poly import Symbol, poly
    from ioaware.analysis.ir.algebra.prover import nonnegative

    difference = _polynomial(low, high)
    if difference is None:
        return False
    atoms = [atom for atom in difference.atoms if isinstance(atom, Symbol)]
    lifted = {atom.key: poly(Symbol(atom.name, poly(least[atom.name]))) for atom in atoms if least and atom.name in least}
    return nonnegative(substitute(difference, lifted) if lifted else difference)


def _polynomial(low: Any, high: Any) -> Any:
    """Return `high` - `low` in the engine's algebra; None where it has no such form."""
    from ioaware.analysis.ir.algebra.sympy_bridge import from_sympy
    from ioaware.errors import UsageError

    try:
        return from_sympy(high) - from_sympy(low)
    except (UsageError, RecursionError):
        return None


def compare(old: Any, new: Any, points: Sequence[Point], admits: Callable[[Point], bool] = lambda _: True) -> Comparison:
    """Return the verdict on `new` against `old`.

    `admits` returns whether both formulas hold at given sizes.
    """
    values = tuple((point, value_at(old, point), value_at(new, point)) for point in points)
    if proven_equal(old, new):
        return Comparison(Verdict.SAME, "equal at every size", values)
    known = [(point, before, after) for point, before, after in values if before is not None and after is not None]
    if more := [(point, before, after) for point, before, after in known if after > before]:
        point, before, after = more[0]
        return Comparison(Verdict.WORSE, f"{after - before:+,} at {at_text(point)}", values)
    if len(known) < len(values) or not values:
        return Comparison(Verdict.INCOMPARABLE, "a formula has no value at the sizes of the gate", values)
    less = [(point, before, after) for point, before, after in known if after < before]
    if proven_at_most(new, old):
        return Comparison(Verdict.BETTER, _fewer(less), values)
    tried, grows, falls = _search(old, new, points, admits)
    here = "fewer bytes" if less else "the same bytes"
    if grows:
        point, before, after = grows
        reason = f"{here} here, another growth: {after - before:+,} at {at_text(point)}"
        return Comparison(Verdict.GROWTH, reason, values, grows)
    if less or falls:
        return Comparison(Verdict.UNSURE, f"fewer or equal at {tried} sizes tried, and not proven at others", values, falls)
    return Comparison(Verdict.INCOMPARABLE, f"equal at {tried} sizes tried, and not proven equal", values)


def _fewer(less: Sequence[tuple[Point, int, int]]) -> str:
    if not less:
        return "no more at any size"
    point, before, after = less[0]
    return f"{after - before:+,} at {at_text(point)}"


Found = tuple[Point, int, int]


def _search(
    old: Any, new: Any, points: Sequence[Point], admits: Callable[[Point], bool]
) -> tuple[int, Found | None, Found | None]:
    """Return how many sizes were tried, and the first of each direction.

    These are the first where `new` is more, and the first where it is less.
    """
    from ioaware.display.time_limit import within

    names = sorted(_names(old) | _names(new))
    tried = [len(points)]
    found: list[Found | None] = [None, None]

    def search() -> None:
        for point in drawn(names, points):
            if not admits(point):
                continue
            before, after = _value(old, point), _value(new, point)
            if before is None or after is None:
                continue
            tried[0] += 1
            if after != before and found[after < before] is None:
                found[after < before] = (point, before, after)
            if found[0]:
                return

    within(2 * SECONDS, search)
    return tried[0], found[0], found[1]


def drawn(names: Sequence[str], points: Sequence[Point]) -> Iterator[dict[str, int]]:
    """Yield sizes to compare formulas at.

    These are multiples and neighbours of the points', each name alone, then sizes of a fixed random sequence.
    """
    for point in points:
        for factor in (2, 3, 16, 1024):
            yield {name: value * factor for name, value in point.items()}
            for one in names:
                yield {**point, one: point.get(one, 1) * factor}
        yield {name: value + 1 for name, value in point.items()}
        yield {name: max(1, value - 1) for name, value in point.items()}
    others = {name: value for point in points[:1] for name, value in point.items() if name not in names}
    draw = random.Random(SEED)  # noqa: S311 - a fixed sequence, of no use to an attacker
    for _ in range(DRAWS):
        yield {**others, **{name: draw.choice(SCALES) for name in names}}


def value_at(expr: Any, point: Point) -> int | None:
    """Return the value at a point.

    None where it has none, or takes longer than a limit to compute.
    """
    from ioaware.display.time_limit import within

    return within(SECONDS, lambda: _value(expr, point))


def _value(expr: Any, point: Point) -> int | None:
    from ioaware.analysis.formulas.evaluate import evaluate

    try:
        return evaluate(expr, dict(point))
    except (ValueError, TypeError, ZeroDivisionError, OverflowError, MemoryError):
        return None


def _names(expr: Any) -> set[str]:
    from ioaware.analysis.formulas.functions import free_symbols

    return set(map(str, free_symbols(expr)))


def at_text(point: Point) -> str:
    """Return `rows=4096, cols=1024`."""
    return ", ".join(f"{name}={value}" for name, value in point.items()) or "these sizes"


def names_of(exprs: Iterable[Any]) -> set[str]:
    """Return the names that the formulas depend on."""
    return set[str]().union(*map(_names, exprs))
