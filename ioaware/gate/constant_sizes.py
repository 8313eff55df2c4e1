"""Compare a call at other sizes where sizes are constants of its kernels.

Formulas do not hold there, since another constant makes another kernel: the call is derived again at each such point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ioaware.errors import IoawareError
from ioaware.gate.derived_work import formulas_of, operator_formulas_of
from ioaware.gate.formulas.formula_order import Comparison, Point, at_text, value_at
from ioaware.gate.verdict import Verdict

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived

DeriveAt = Callable[[Point], "Derived"]
Values = tuple[Point, tuple[int | None, ...]]
CHANGES = ((1.5, 7), (2, 0), (0.5, 0))
"""Factor and summand of sizes tried for the other point, ragged ones first."""


def constants_of(derived: Derived) -> dict[str, int]:
    """Return the sizes that are constants of the kernels, with their values."""
    symbols = derived.symbols or {}
    return {name: value for name, value in derived.params.items() if type(value) is int and name not in symbols}


def is_elsewhere(point: Point, constants: Mapping[str, int]) -> bool:
    """Return whether a point has another value of a constant."""
    return any(point.get(name, value) != value for name, value in constants.items())


def bytes_at(derive_at: DeriveAt, point: Point) -> dict[str, int | None] | str:
    """Return the bytes of each kind at a point, or why they are not known."""
    try:
        derived = derive_at(point)
    except IoawareError as error:
        return error.what
    if not derived.exact:
        return "the bytes are not exact there"
    formulas = formulas_of(derived) | operator_formulas_of(derived)
    return {kind: None if expr is None else value_at(expr, point) for kind, expr in formulas.items()}


def other_point(derived: Derived, derive_at: DeriveAt, kinds: Sequence[str]) -> Values | None:
    """Return a point with other constants, and the bytes of these kinds there.

    None where the call has no constant sizes, or cannot be derived at any of the points tried.
    """
    if not constants_of(derived) or derived.exact_here_only:
        return None
    first = {name: value for name, value in derived.params.items() if type(value) is int}
    for factor, more in CHANGES:
        point = {name: int(value * factor) + more for name, value in first.items()}
        found = bytes_at(derive_at, point) if all(point.values()) else "a size is zero"
        if not isinstance(found, str):
            values = tuple(found.get(kind, 0) for kind in kinds)
            if None not in values and not any(found.get(kind) for kind in found.keys() - set(kinds)):
                return point, values
    return None


def compared_elsewhere(here: Comparison, point: Point, old: int, new: int | None) -> Comparison:
    """Return a comparison with that of one more point.

    The call was derived again there.
    """
    at = f"at {at_text(point)}, where a constant of the kernel is another"
    if new is None:
        return Comparison(Verdict.INCOMPARABLE, f"unknown {at}", here.values)
    if new == old or here.verdict in (Verdict.WORSE, Verdict.GROWTH):
        return here
    if new < old and here.verdict not in (Verdict.SAME, Verdict.BETTER):
        return here
    verdict = Verdict.GROWTH if new > old else Verdict.BETTER
    return Comparison(verdict, f"{new - old:+,} {at}", here.values, (point, old, new))
