"""Represent the grid of a launch.

A program count that is a minimum gets a name during the analysis.

`min(132, tiles)` programs that share `tiles` are a persistent kernel's. Its tile schedule is recognisable while the count is
one symbol. Expanded, the minimum would merge with the minima and floors around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sympy import Expr

from ioaware.analysis.ir.algebra.constructors import rebuild
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Atom, Extreme, Poly, Symbol, poly
from ioaware.analysis.ir.algebra.sympy_bridge import from_sympy
from ioaware.analysis.ir.loops.access_totals import Programs


@dataclass(frozen=True, slots=True)
class Grid:
    """`programs` with names for minima; `sizes` maps each name's key to the minimum."""

    programs: Programs
    sizes: Mapping[str, Poly]
    names: Mapping[Atom, Poly]

    @staticmethod
    def of(extents: Sequence[Expr | int]) -> Grid:
        """Build the grid of a launch of up to three extents."""
        sizes = [from_sympy(size) for size in (*extents, 1, 1, 1)[:3]]
        named: dict[Atom, Symbol] = {}
        for axis, size in enumerate(sizes):
            if isinstance(size.atom, Extreme) and size.atom.least:
                named.setdefault(size.atom, Symbol(f"programs_{axis}", size, size))
        names: dict[Atom, Poly] = {atom: poly(name) for atom, name in named.items()}
        width, height, depth = (names.get(size.atom, size) if size.atom else size for size in sizes)
        x, y, z = (Symbol(f"pid_{axis}", ZERO, size - 1) for axis, size in enumerate((width, height, depth)))
        programs = Programs((x, y, z), (width, height, depth))
        return Grid(programs, {name.key: poly(atom) for atom, name in named.items()}, names)

    @property
    def here(self) -> tuple[Poly, Poly, Poly]:
        """Return the program ids as a kernel sees them."""
        x, y, z = (
            ZERO if size == ONE else poly(index) for index, size in zip(self.programs.indices, self.programs.sizes, strict=True)
        )
        return x, y, z

    @property
    def taken(self) -> set[str]:
        """Return the names that no loop index may have."""
        named = {name.atom for name in self.names.values()}
        return {index.name for index in (*self.programs.indices, *named) if isinstance(index, Symbol)}

    def named(self, value: Poly) -> Poly:
        """Return an argument in terms of the names.

        The host may pass the number of programs.
        """
        return rebuild(value, self.names.get) if self.names else value
