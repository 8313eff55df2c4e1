"""Find multiples of lengths for which rows align and no tile is cut.

All rows have the same offset in sectors then.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import gcd, lcm

from ioaware.analysis.ir.algebra.constructors import mod
from ioaware.analysis.ir.algebra.poly import ONE, Atom, Choice, Floor, Poly, Symbol, Test, Unknown, parts, poly
from ioaware.analysis.ir.algebra.predicates import is_zero
from ioaware.machine.model import SECTOR_BYTES


def alignment(address: Poly) -> dict[Symbol, int]:
    """Return for each parameter the multiple that makes its terms whole sectors."""
    needed: dict[Symbol, int] = {}
    for factors, coefficient in address.terms.items():
        if not isinstance(coefficient, int) or coefficient % SECTOR_BYTES == 0:
            continue
        parameters = [a for a in factors if isinstance(a, Symbol) and a.upper is None]
        multiple = SECTOR_BYTES // gcd(coefficient, SECTOR_BYTES)
        if parameters and not any(needed.get(p, 1) >= multiple for p in parameters):
            needed[parameters[-1]] = max(multiple, needed.get(parameters[-1], 1))
    return needed


def whole_tiles(address: Poly, mask: Poly) -> dict[Symbol, int]:
    """Return for each parameter the tile size that makes all tiles whole.

    The parameters are those that wrap or clip addresses.
    """
    needed: dict[Symbol, int] = {}
    for atom in _inside(address) + _inside(mask):
        lengths: list[Symbol] = []
        if isinstance(atom, Floor):
            lengths = [atom.denominator.atom] if isinstance(atom.denominator.atom, Symbol) else []
        elif isinstance(atom, Choice):
            condition = atom.condition.atom
            inside = condition.value.atoms if isinstance(condition, Test) else set[Atom]()
            lengths = [a for a in inside if isinstance(a, Symbol) and a.upper is None]
        for lane in _lanes(poly(atom)):
            size = int(lane.upper.constant or 0) + 1 if lane.upper is not None else 1
            for length in lengths:
                needed[length] = lcm(needed.get(length, 1), size)
    return needed


def _inside(value: Poly) -> list[Atom]:
    """Return every atom, including those inside others."""
    return [inner for atom in value.atoms for inner in (atom, *(i for part in parts(atom) for i in _inside(part)))]


def _lanes(value: Poly) -> list[Symbol]:
    return [atom for atom in _inside(value) if isinstance(atom, Symbol) and atom.name.startswith("lane")]


def multiples(needed: Mapping[Symbol, int]) -> tuple[dict[str, Poly], dict[str, Poly], Poly]:
    """Return each parameter as a multiple of a new one, and the way back.

    The divisibility condition is returned too.
    """
    forth: dict[str, Poly] = {}
    back: dict[str, Poly] = {}
    condition = ONE
    for symbol, multiple in needed.items():
        unit = Symbol(f"{symbol.name}/{multiple}", symbol.lower)
        forth[symbol.key] = poly(unit) * multiple
        back[unit.key] = poly(symbol) * Fraction(1, multiple)
        condition = condition * is_zero(mod(poly(symbol), poly(multiple)))
    return forth, back, condition


def has_unknown(value: Poly) -> bool:
    """Return whether part of the value depends on data."""
    return any(isinstance(a, Unknown) or any(has_unknown(p) for p in parts(a)) for a in value.atoms)
