"""Count sectors of rows of bytes.

A row is one run, or a band or triangle mask cuts rows differently.
"""

from __future__ import annotations

from dataclasses import dataclass

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.analysis.ir.accesses.values import lane_symbol
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Sum, Symbol, Test, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero, choice, resolve_tests
from ioaware.analysis.ir.algebra.prover import nonnegative, positive
from ioaware.analysis.ir.sums.closed_forms import extent, linear
from ioaware.machine.model import SECTOR_BYTES

SECTOR = poly(SECTOR_BYTES)
PATIENT = 7  # without a proof that rows do not overlap the count is only a bound


@dataclass(frozen=True, slots=True)
class Sectors:
    """Sectors of one execution; an upper bound where `caveats` is not empty."""

    count: Poly
    caveats: tuple[str, ...] = ()


def run_sectors(start: Poly, span: Poly, stride: Poly, count: Poly) -> Poly | None:
    """Return the sectors of one row; contiguous while the stride is at most a sector."""
    present = resolve_tests(at_least_zero(count - 1))
    if span == stride * count and not mod(start, SECTOR).terms:
        present = ONE  # an empty row has no sectors
    dense = present * (floor_div(start + span - 1, SECTOR) - floor_div(start, SECTOR) + 1)
    if nonnegative(SECTOR_BYTES - stride):
        return dense
    if nonnegative(stride - SECTOR_BYTES):
        return count
    return choice(at_least_zero(stride - SECTOR_BYTES), count, dense) if positive(stride) else None


def sum_rows(body: Poly, index: Symbol, low: Poly, high: Poly) -> Poly:
    """Sum over rows, term by term where rows have different offsets in sectors."""
    if index.key not in body.free:
        return body * extent(low, high)
    return poly(Sum(body, index, low, high))


def rows_of_a_mask(touch: Touch, mask: Poly, address: Poly) -> Sectors | None:
    """Count sectors where a mask mixes dimensions.

    There are runs along the smallest stride, one for each other lane.
    """
    lanes = [lane_symbol(d, size) for d, size in enumerate(touch.shape) if size > 1]
    steps = {lane: found[0] for lane in lanes if (found := linear(address, lane)) is not None}
    dense = {lane: int(s.constant) for lane, s in steps.items() if s.constant is not None and 0 < s.constant <= SECTOR_BYTES}
    if len(steps) < len(lanes) or not dense:
        return None
    run = min(dense, key=lambda lane: dense[lane])
    ((tests, _),) = mask.terms.items()
    low, high, guard = ZERO, poly(touch.shape[lanes_of(touch)[run]]), ONE
    for test in tests:
        found = linear(test.value, run) if isinstance(test, Test) and not test.equal else None
        if run.key not in test.free:
            guard = guard * poly(test)
        elif found is not None and found[0] == ONE:
            low = greatest(low, -found[1])
        elif found is not None and found[0] == -ONE:
            high = least(high, found[1] + 1)
        else:
            return None
    width, count = touch.element_bytes, greatest(ZERO, high - low)
    base = substitute(address, {run.key: ZERO})
    each = run_sectors(base + low * dense[run], dense[run] * (count - 1) + width, poly(dense[run]), count)
    if each is None:
        return None
    others = sorted((lane for lane in lanes if lane != run), key=lambda lane: (steps[lane].constant or 0, len(steps[lane].key)))
    end = mod(substitute(base, {lane.key: ZERO for lane in others}), SECTOR) + dense[run] * (high - 1) + width
    apart = True
    for lane in others:
        apart = apart and not mod(steps[lane], SECTOR).terms and nonnegative(steps[lane] - end, PATIENT)
        end = end + steps[lane] * poly(lane)
    result = guard * each
    for lane in others:
        result = sum_rows(result, lane, ZERO, poly(touch.shape[lanes_of(touch)[lane]]))
    return Sectors(result, () if apart else ("rows may share sectors",))


def lanes_of(touch: Touch) -> dict[Symbol, int]:
    """Return the dimension of each lane symbol."""
    return {lane_symbol(dimension, size): dimension for dimension, size in enumerate(touch.shape)}
