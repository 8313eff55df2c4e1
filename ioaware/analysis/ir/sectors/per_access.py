"""Count the 32-byte sectors of one access as a formula.

It has runs of bytes, shared sectors and alignment.

An access with an address affine in its lanes, under masks that clip each dimension, is a stack of rows; a row is a run of
bytes. A run from byte b to byte l touches floor(l/32) - floor(b/32) + 1 sectors. Ascending rows share a sector at most with the
row before. Where lengths are multiples of a sector all rows are alike, and the formula states those lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Choice, Floor, Poly, Symbol, Test, poly, total
from ioaware.analysis.ir.algebra.predicates import at_least_zero, negation, resolve_tests
from ioaware.analysis.ir.algebra.prover import nonnegative, positive, replace_atom
from ioaware.analysis.ir.sectors.alignment import has_unknown
from ioaware.analysis.ir.sectors.lanes import count_lanes, split_lanes
from ioaware.analysis.ir.sectors.rows import PATIENT, SECTOR, Sectors, rows_of_a_mask, run_sectors, sum_rows
from ioaware.analysis.ir.sums.closed_forms import linear
from ioaware.machine.model import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Axis:
    """Dimension of an access: byte stride, active lanes, and its period.

    It wraps after the period.
    """

    lane: Symbol
    stride: Poly
    low: Poly
    high: Poly
    wrap: Poly | None = None

    @property
    def count(self) -> Poly:
        return greatest(ZERO, self.high - self.low)


def sectors_of(touch: Touch) -> Sectors | None:
    """Return the sectors of one execution of an access.

    None where its shape has no rule.
    """
    touch = split_lanes(touch)
    mask, address = resolve_tests(touch.mask), touch.target.offset
    if mask == ZERO:
        return Sectors(ZERO)
    by_lanes = count_lanes(touch, mask, address)
    if by_lanes is not None:
        return Sectors(by_lanes)
    branch = next((a for a in address.atoms if isinstance(a, Choice)), None)
    if branch is not None:
        return _of_branches(touch, mask, branch)
    if len(mask.terms) != 1 or mask.terms[next(iter(mask.terms))] != 1:
        return None
    found = _axes(touch.shape, mask, address)
    if found is None:
        return rows_of_a_mask(touch, mask, address)
    axes, guard = found
    counted = _sum_of_rows(address, axes, touch.element_bytes)
    return None if counted is None else Sectors(guard * counted.count, counted.caveats)


def _of_branches(touch: Touch, mask: Poly, branch: Choice) -> Sectors | None:
    """Count lanes with one of two addresses: the sectors of each branch.

    This is an upper bound.
    """
    cases = (branch.condition, branch.then), (negation(branch.condition), branch.other)
    found: list[Sectors] = []
    for condition, value in cases:
        active = resolve_tests(mask * condition)
        target = replace(touch.target, offset=replace_atom(touch.target.offset, branch, value))
        each = sectors_of(replace(touch, mask=active, target=target)) if active != ZERO else None
        if each is None and active != ZERO:
            return None
        found += [each] if each is not None else []
    both = ("lanes of two branches may share sectors",) if len(found) > 1 else ()
    caveats = dict.fromkeys((*(caveat for each in found for caveat in each.caveats), *both))
    return Sectors(total(each.count for each in found), tuple(caveats))


def _axes(shape: Sequence[int], mask: Poly, address: Poly) -> tuple[list[Axis], Poly] | None:
    """Return the dimensions clipped by the mask, and when a lane is active.

    The latter is the condition for any lane to be active.
    """
    ((tests, _),) = mask.terms.items()
    guard, axes = ONE, list[Axis]()
    pending = set(tests)
    for dimension, size in enumerate(shape):
        if size == 1:
            continue
        lane = lane_symbol(dimension, size)
        mine = [test for test in tests if lane.key in test.free]
        pending -= set(mine)
        clipped = _clipped(mine, lane, size)
        axis = None if clipped is None else _axis(address, lane, *clipped)
        if axis is None:
            return None
        axes.append(axis)
    lanes = {lane_symbol(d, size).key for d, size in enumerate(shape)}
    for test in pending:
        guard = guard * poly(test)
    if any((axis.low.free | axis.high.free | axis.stride.free) & lanes for axis in axes):
        return None
    return axes, guard


def _clipped(tests: Sequence[object], lane: Symbol, size: int) -> tuple[Poly, Poly] | None:
    low, high = ZERO, poly(size)
    for test in tests:
        found = linear(test.value, lane) if isinstance(test, Test) else None
        if found is None:
            return None
        slope, offset = found
        if isinstance(test, Test) and test.equal:
            if slope not in (ONE, -ONE):
                return None
            at = -offset if slope == ONE else offset
            low, high = greatest(low, at), least(high, at + 1)
        elif positive(slope):
            low = greatest(low, -floor_div(offset, slope))
        elif positive(-slope):
            high = least(high, floor_div(offset, -slope) + 1)
        else:
            return None
    return low, high


def _axis(address: Poly, lane: Symbol, low: Poly, high: Poly) -> Axis | None:
    found = linear(address, lane)
    if found is not None:
        return Axis(lane, found[0], low, high)
    return _wrapped(address, lane, low, high)


def _wrapped(address: Poly, lane: Symbol, low: Poly, high: Poly) -> Axis | None:
    """Return the axis of rows (lane + c) mod m, m or more: all distinct, in no order."""
    inside = [a for m in address.terms for a in m if lane.key in a.free and isinstance(a, Floor)]
    if len(set(inside)) != 1:
        return None
    (wrap,) = set(inside)
    numerator = linear(wrap.numerator, lane)
    plain = Poly({m: c for m, c in address.terms.items() if wrap not in m})
    slope = linear(plain, lane)
    if slope is None or numerator is None or numerator[0] != ONE or lane.key in wrap.denominator.free:
        return None
    times = Poly({tuple(a for a in m if a != wrap): c for m, c in address.terms.items() if wrap in m})
    if times != -(slope[0] * wrap.denominator) or lane.key in times.free:
        return None
    return Axis(lane, slope[0], low, least(high, low + wrap.denominator), wrap.denominator)


def _sum_of_rows(address: Poly, axes: Sequence[Axis], width: int) -> Sectors | None:
    """Sum runs of bytes along the axis of smallest stride.

    The sum is over the rows of the other axes.
    """
    present = ONE
    moving: list[Axis] = []
    for axis in axes:
        if not axis.stride.terms:  # every lane at the same address
            present = present * resolve_tests(at_least_zero(axis.count - 1))
        elif nonnegative(-axis.stride):  # descending: count from the other end
            address = substitute(address, {axis.lane.key: axis.low + axis.high - 1 - poly(axis.lane)})
            moving.append(replace(axis, stride=-axis.stride))
        else:
            moving.append(axis)
    run, rows = _merged(moving)
    counted = _rows(address, run, rows, width)
    return None if counted is None else Sectors(present * counted.count, counted.caveats)


def _merged(axes: Sequence[Axis]) -> tuple[Axis | None, list[Axis]]:
    """Return the extended contiguous axis, and the other axes.

    It is extended by every axis with a stride equal to its length.
    """
    constant = [a for a in axes if a.stride.constant is not None]
    others = list(axes)
    run = min(constant, key=lambda a: int(a.stride.constant or 0), default=None)
    if run is None:
        symbolic = [a for a in axes if a.wrap is None]
        run = symbolic[-1] if symbolic else None
    if run is not None:
        others.remove(run)
        for axis in sorted(others, key=lambda a: len(a.stride.key)):
            lanes = run.lane.upper + 1 if run.lane.upper is not None else ZERO
            whole = run.low == ZERO and run.high == lanes and run.wrap is None
            if whole and axis.stride == run.stride * lanes and axis.wrap is None and axis.low == ZERO:
                wide = Symbol(f"{run.lane.name}+{axis.lane.name}", ZERO, lanes * _size(axis) - 1)
                run = Axis(wide, run.stride, ZERO, axis.high * lanes)
                others.remove(axis)
    return run, others


def _size(axis: Axis) -> Poly:
    return axis.lane.upper + 1 if axis.lane.upper is not None else ONE


def _rows(address: Poly, run: Axis | None, rows: Sequence[Axis], width: int) -> Sectors | None:
    kept = {axis.lane.key for axis in rows}
    base = substitute(address, {key: ZERO for key in address.free if key.startswith("lane") and key not in kept})
    count, stride = ONE, poly(width)
    if run is not None:
        base, count, stride = base + run.low * run.stride, run.count, run.stride
    span = stride * (count - 1) + width
    each = run_sectors(base, span, stride, count)
    if each is None:
        return None
    caveats: list[str] = []
    if run is not None and run.wrap is not None and (mod(base, SECTOR).terms or mod(run.stride * run.wrap, SECTOR).terms):
        caveats.append("lanes wrap around")
        each = floor_div(span, SECTOR) + 3
    if has_unknown(each):
        caveats.append("the starts of rows are loaded from memory")
        each = resolve_tests(at_least_zero(count - 1)) * (floor_div(span + 2 * SECTOR_BYTES - width - 1, SECTOR))
    present = resolve_tests(at_least_zero(count - 1))  # rows without lanes share nothing
    for axis in sorted(rows, key=lambda a: (a.stride.constant is None, int(a.stride.constant or 0), len(a.stride.key))):
        shared = _shared(base, span, axis, present, caveats)
        each = sum_rows(each, axis.lane, axis.low, axis.high) - shared
        present = present * resolve_tests(at_least_zero(axis.count - 1))
        span = span + axis.stride * (axis.count - 1)
        base = substitute(base, {axis.lane.key: axis.low})
    return Sectors(each, tuple(caveats))


def _shared(base: Poly, span: Poly, axis: Axis, present: Poly, caveats: list[str]) -> Poly:
    """Return the sectors that a row of this axis shares with the row before.

    They are shared if rows are `present`.

    Returns 0 and adds a caveat where that is unknown.
    """
    if nonnegative(axis.stride - span - (SECTOR_BYTES - 1)):
        return ZERO
    offset = mod(substitute(base, {axis.lane.key: ZERO}), SECTOR).constant
    aligned = not mod(axis.stride, SECTOR).terms
    apart = nonnegative(axis.stride - span, PATIENT)
    if (
        aligned
        and offset is not None
        and (apart or not axis.stride.constant)
        and nonnegative(axis.stride - span - int(offset), PATIENT)
    ):
        return ZERO
    if not apart:
        caveats.append("rows may overlap")
        return ZERO
    if axis.wrap is not None:
        caveats.append("rows that wrap around may share sectors")
        return ZERO
    before = substitute(base, {axis.lane.key: poly(axis.lane) - 1}) + span - 1
    same = at_least_zero(floor_div(before, SECTOR) - floor_div(base, SECTOR))
    return sum_rows(present * same, axis.lane, axis.low + 1, axis.high)
