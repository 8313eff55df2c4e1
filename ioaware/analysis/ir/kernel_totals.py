"""Sum the logged memory instructions and products of a kernel over all programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sympy import Expr, Symbol

from ioaware.analysis.ir.access_counts import AccessCounts, beyond_its_tensor, written_in_part
from ioaware.analysis.ir.accesses.access_log import Condition, Scope, Touch
from ioaware.analysis.ir.accesses.kernel_traffic import Access, AccessKind, Argument, Count, KernelTraffic, Pointer
from ioaware.analysis.ir.algebra.constructors import substitute
from ioaware.analysis.ir.algebra.poly import ONE, Poly, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.algebra.sympy_bridge import LONGEST_FORMULA, from_sympy, to_sympy
from ioaware.analysis.ir.caveats import Caveat, sentences
from ioaware.analysis.ir.integer_widths import step_limits, width_limits
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Interpreter
from ioaware.analysis.ir.interpreter.unknown_names import varies
from ioaware.analysis.ir.loops.access_totals import (
    Counted,
    Programs,
    active_lanes,
    total_count,
    upper_bound,
)
from ioaware.analysis.ir.loops.grid import Grid
from ioaware.analysis.ir.loops.index_set_splitting import split_and_merge
from ioaware.analysis.ir.loops.persistent_loops import merge_persistent_loop
from ioaware.analysis.ir.loops.substitution import Placed
from ioaware.analysis.ir.memory_bounds import when_beyond
from ioaware.analysis.ir.sectors.enumeration import repetitions, totals
from ioaware.analysis.ir.sectors.sector_totals import SectorTotal, combined_sectors, sector_total
from ioaware.machine.model import SECTOR_BYTES

SAME_EVERYWHERE = "the formulas assume that each of these values is equal for all programs, iterations and lanes"
"""Assumption of a formula in a named unknown that may differ.

It may differ between programs, iterations or lanes.
"""

TOO_LONG = f"its formula would have more than {LONGEST_FORMULA:,} characters, and is not written"


class KernelTotals:
    """Compute formulas from the log of one interpreted kernel."""

    def __init__(self, walk: Interpreter, grid: Grid, arguments: dict[str, Argument]) -> None:
        self.walk, self.grid, self.arguments = walk, grid, arguments

    def traffic(self, kernel: str) -> KernelTraffic:
        """Return the totals of the launch, and those of each memory instruction."""
        record = self.walk.record
        counts = [self.counts(touch) for touch in record.touches]
        accesses = tuple(map(self.access, counts))
        reads, writes = (self.sector_bytes(counts, side) for side in ("read", "write"))
        exact = not record.notes and all(access.exact for access in accesses)
        return KernelTraffic(
            kernel,
            accesses,
            self.bytes(counts, "read"),
            self.bytes(counts, "write"),
            self.bytes(counts, "atomic"),
            reads,
            writes,
            self.flops(),
            exact=exact,
            sectors_exact=exact and reads is not None and writes is not None and all(a.sectors_exact for a in accesses),
            notes=self.remarks(counts, accesses),
            limits=(*width_limits(record.widths, self.grid.sizes), *step_limits(record.steps, self.grid.sizes)),
            matmul_types=self.matmul_types,
        )

    def without_formulas(self, kernel: str) -> KernelTraffic:
        """Return the accesses of the launch, all with unknown counts."""

        def unknown(what: str) -> Count:
            symbol: Any = Symbol(f"{what}@{kernel}", integer=True)
            return Count(symbol)

        accesses = tuple(
            Access(
                kind=touch.kind,
                operation=touch.operation,
                tensor=self.tensor(touch),
                elements=unknown(f"{touch.kind}_elements"),
                element_bytes=touch.element_bytes,
                executions=unknown(f"{touch.kind}_executions"),
                sectors=None,
                frames=touch.frames,
                exact=False,
                sectors_exact=False,
                notes=(),
                beyond="",
            )
            for touch in self.walk.record.touches
        )
        counts = {name: unknown(name) for name in ("read_bytes", "write_bytes", "atomic_bytes", "flops")}
        sectors: dict[str, Any] = {"read_sector_bytes": None, "write_sector_bytes": None, "sectors_exact": False}
        notes = tuple(dict.fromkeys((*self.walk.record.assumptions, *self.walk.record.notes, TOO_LONG)))
        return KernelTraffic(kernel, accesses, **counts, **sectors, exact=False, notes=notes, matmul_types=self.matmul_types)

    @property
    def matmul_types(self) -> tuple[str, ...]:
        """Return the element types of the products' first operands."""
        return tuple(sorted({product.element for product in self.walk.record.products}))

    def tensor(self, touch: Touch) -> str:
        """Return the name of the tensor of an access."""
        argument = self.arguments.get(touch.target.argument)
        return touch.target.argument if argument is None else (getattr(argument, "tensor", "") or argument.name)

    def counts(self, touch: Touch) -> AccessCounts:
        """Return the lanes, executions and sectors of an access.

        Small grids are enumerated; formulas of the others come from loops that are merged and split.
        """
        scopes, undecided = self.scopes(touch.scopes)
        mask, data = upper_bound(resolve_tests(touch.mask))
        counts = AccessCounts(touch, undecided, data)
        known = None if counts.at_most else totals(replace(touch, mask=mask, scopes=tuple(scopes)), self.grid.programs)
        if known is not None:
            counts.lanes.append(self.once(known.lanes))
            counts.executions.append(self.once(known.executions))
            if touch.kind != "atomic":
                counts.sectors.append(SectorTotal(poly(known.sectors), poly(known.sectors), {}, ()))
            return counts
        for where in self.merged_loops((mask,), scopes):
            counts.lanes.append((active_lanes(where.values[0], touch.shape), where.scopes, where.programs))
            counts.executions.append((ONE, where.scopes, where.programs))
        if touch.kind != "atomic":
            for where in self.merged_loops((mask, touch.target.offset), scopes):
                swept = replace(touch, mask=where.values[0], target=replace(touch.target, offset=where.values[1]))
                counts.sectors.append(sector_total(swept, where.scopes, where.programs))
        return counts

    def access(self, counts: AccessCounts) -> Access:
        """Return the access with its totals over all programs."""
        touch = counts.touch
        of_lanes, of_sectors = counts.lane_caveats, counts.sector_caveats
        return Access(
            kind=touch.kind,
            operation=touch.operation,
            tensor=self.tensor(touch),
            elements=over_grid(counts.lanes_of_programs, counts.at_most),
            element_bytes=touch.element_bytes,
            executions=over_grid(counts.executions, bool(counts.undecided)),
            sectors=None if touch.kind == "atomic" else _count(combined_sectors(counts.sectors), bool(of_sectors)),
            frames=touch.frames,
            exact=not of_lanes,
            sectors_exact=not of_lanes and not of_sectors,
            notes=tuple(map(str, (*of_lanes, *of_sectors))),
            beyond=self.beyond_memory(touch),
        )

    def bytes(self, counts: Sequence[AccessCounts], kind: AccessKind) -> Count:
        """Return the bytes of all accesses of a kind."""
        alike = [one for one in counts if one.touch.kind == kind]
        return over_grid([each for one in alike for each in one.bytes], any(one.at_most for one in alike))

    def sector_bytes(self, counts: Sequence[AccessCounts], kind: AccessKind) -> Count | None:
        """Return the bytes of all sectors of a kind.

        None where those of an access are unknown.
        """
        alike = [one for one in counts if one.touch.kind == kind]
        sectors = combined_sectors([each for one in alike for each in one.sectors], SECTOR_BYTES)
        return _count(sectors, any(one.at_most or one.sector_caveats for one in alike))

    def flops(self) -> Count:
        """Return the FLOPs of all matrix products."""
        repeated = [self.repeated(product.flops, product.scopes) for product in self.walk.record.products]
        return over_grid([each for counted, _ in repeated for each in counted], any(undecided for _, undecided in repeated))

    def remarks(self, counts: Sequence[AccessCounts], accesses: Sequence[Access]) -> tuple[str, ...]:
        """Return what the formulas assume and why they are not exact."""
        caveats: list[Caveat] = []
        for one, access in zip(counts, accesses, strict=True):
            caveats += (*one.lane_caveats, *one.sector_caveats, *beyond_its_tensor(one.touch, access.beyond))
            caveats += written_in_part(one.touch, self.stores(one.touch))
        differing = any(varies(unknown) for one in counts for unknown in one.named)
        record = self.walk.record
        said = [*record.assumptions, *record.notes, *sentences(caveats), *([SAME_EVERYWHERE] if differing else [])]
        return tuple(dict.fromkeys(said))

    def repeated(self, amount: int, scopes: Sequence[Scope]) -> tuple[list[Counted], bool]:
        """Return an amount for each time that its scopes run it.

        And whether data decide how often that is.
        """
        kept, undecided = self.scopes(scopes)
        times = None if undecided else repetitions(kept, self.grid.programs)
        if times is not None:
            return [self.once(amount * times)], False
        placed = self.merged_loops((poly(amount),), kept)
        return [(where.values[0], where.scopes, where.programs) for where in placed], bool(undecided)

    def beyond_memory(self, touch: Touch) -> str:
        """Return the tensor that an access leaves, and when; empty for none.

        Its bytes are counted anyway.
        """
        argument = self.arguments.get(touch.target.argument)
        if not isinstance(argument, Pointer) or argument.size_bytes is None:
            return ""
        target = replace(touch.target, offset=substitute(touch.target.offset, self.grid.sizes))
        mask = substitute(touch.mask, self.grid.sizes)
        condition = when_beyond(replace(touch, target=target, mask=mask), from_sympy(argument.size_bytes))
        return "" if condition is None else f"{argument.tensor or argument.name} {condition}"

    def stores(self, touch: Touch) -> int:
        """Return how many stores of the kernel write to the tensor of an access."""
        return sum(each.kind == "write" and each.target.argument == touch.target.argument for each in self.walk.record.touches)

    def once(self, count: int) -> Counted:
        """Return a count that is already summed over all programs."""
        return poly(count), (), Programs(self.grid.programs.indices, (ONE, ONE, ONE))

    def merged_loops(self, values: Sequence[Poly], scopes: Sequence[Scope]) -> tuple[Placed, ...]:
        """Return the values with their loops and programs.

        Persistent loops are merged and grid names resolved.
        """
        return split_and_merge(merge_persistent_loop(values, scopes, self.grid.programs).rewritten(self.grid.sizes))

    def scopes(self, scopes: Sequence[Scope]) -> tuple[list[Scope], list[Unknown]]:
        """Return the scopes with data-dependent conditions taken as true.

        The unknowns are dropped.
        """
        kept: list[Scope] = []
        data: list[Unknown] = []
        for scope in scopes:
            if isinstance(scope, Condition):
                truth, found = upper_bound(resolve_tests(scope.truth))
                data += found
                kept.append(Condition(truth))
            else:
                kept.append(scope)
        return kept, data


def over_grid(counted: Sequence[Counted], at_most: bool = False) -> Count:
    """Return the sum over all programs."""
    return Count(to_sympy(total_count(counted)), at_most)


def _count(formula: Expr | None, at_most: bool = False) -> Count | None:
    return None if formula is None else Count(formula, at_most)
