"""The range of active offsets equals a count over all lanes and programs."""

from __future__ import annotations

import random
from itertools import product

import pytest

from ioaware.analysis.ir.accesses.access_log import Condition, Touch
from ioaware.analysis.ir.accesses.kernel_traffic import Count
from ioaware.analysis.ir.accesses.values import Target, lane_symbol
from ioaware.analysis.ir.active_range import ActiveRange, active_range, conjunctions
from ioaware.analysis.ir.algebra.constructors import floor_div
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero, is_zero
from ioaware.analysis.ir.algebra.sympy_bridge import to_sympy

N, M = poly(Symbol("n", poly(4))), poly(Symbol("m", ONE))
B, C = 8, 4
PID = Symbol("pid_0", ZERO, floor_div(N + B - 1, poly(B)) - 1)
ROW = Symbol("pid_1", ZERO, M - 1)
LANE, WIDE = lane_symbol(0, B), lane_symbol(1, C)
AT = poly(PID) * B + poly(LANE)


def touch(offset: Poly, *truths: Poly, under: Poly = ONE) -> Touch:
    mask = ONE
    for truth in truths:
        mask = mask * truth
    return Touch("read", "tt.load", Target("x", offset), (B, C), 4, mask, (Condition(under),), ())


def evaluated(value: Poly, values: dict[str, int]) -> int:
    return int(Count(to_sympy(value)).evaluate(values))


def brute_force(one: Touch, n: int, m: int) -> tuple[int, int] | None:
    """Return the least and greatest offset of all active lanes of all programs."""
    found: list[int] = []
    conditions = [scope.truth for scope in one.scopes if isinstance(scope, Condition)]
    for pid, row, lane, wide in product(range(-(-n // B)), range(m), range(B), range(C)):
        values = {"n": n, "m": m, "pid_0": pid, "pid_1": row, "lane0": lane, "lane1": wide}
        if all(evaluated(truth, values) for truth in (one.mask, *conditions)):
            found.append(evaluated(one.target.offset, values))
    return (min(found), max(found)) if found else None


def drawn(seed: int) -> Touch:
    """Return an access of rows of n elements under a random mask."""
    draw = random.Random(seed)
    tests = [at_least_zero(N + draw.randrange(-1, 4) - AT * draw.choice((1, 1, 2)))] if draw.random() < 0.8 else []
    if draw.random() < 0.4:
        tests.append(at_least_zero(AT - draw.randrange(3)))
    if draw.random() < 0.4:
        tests.append(at_least_zero(draw.randrange(C + 2) - poly(WIDE)))
    if draw.random() < 0.3:
        tests.append(at_least_zero(M - 1 - poly(ROW)))
    if draw.random() < 0.2:
        tests.append(is_zero(poly(LANE) - draw.randrange(B)))
    offset = draw.choice((AT * 4, poly(ROW) * N * 4 + AT * 4, poly(ROW) * 64 + AT * 16 + poly(WIDE) * 4, 400 - AT * 4))
    return touch(offset + draw.choice((0, 4, -8)), *tests, under=draw.choice((ONE, at_least_zero(N - 3 - AT))))


@pytest.mark.parametrize("seed", range(40))
def test_the_range_is_attained(seed: int) -> None:
    one = drawn(seed)
    ends = active_range(one)
    for n, m in ((5, 1), (8, 2), (13, 3)):
        counted = brute_force(one, n, m)
        if ends is not None:
            values = {"n": n, "m": m}
            assert (counted is not None) == all(evaluated(each, values) >= 0 for each in ends.conditions)
            assert counted is None or counted == (evaluated(ends.low, values), evaluated(ends.high, values))


def test_most_ranges_are_known() -> None:
    assert sum(active_range(drawn(seed)) is not None for seed in range(40)) >= 20


@pytest.mark.parametrize(
    "mask",
    [
        poly(Unknown("data", "it is loaded", truth=True)),  # data decide it
        is_zero(2 * poly(LANE) - 3),  # at no lane
        at_least_zero(poly(LANE) - poly(PID)) * at_least_zero(N - 1 - AT),  # it couples two digits
        at_least_zero(poly(LANE) - 3) + at_least_zero(2 - poly(LANE)) * at_least_zero(N - 9),  # a disjunction
        at_least_zero(N - 9),  # the sizes decide it
    ],
)
def test_nothing_is_claimed_under_another_mask(mask: Poly) -> None:
    assert active_range(touch(AT * 4, mask)) is None


def test_alternatives_are_ranges_of_their_own() -> None:
    """Those below n - 1 but for the third are none: no conjunction makes them active."""
    below, at_three, late = at_least_zero(N - 1 - AT), is_zero(AT - 3), at_least_zero(AT - 2)
    either = below + at_three - below * at_three
    ranges = {active_range(one) for one in conjunctions(touch(AT * 4, either))}
    assert ranges == {ActiveRange(ZERO, 4 * N - 4), ActiveRange(poly(12), poly(12))}
    part = below * (1 - at_three) + at_three * late
    assert [one.mask for one in conjunctions(touch(AT * 4, part))] == [at_three * late]
    assert [one.mask for one in conjunctions(touch(AT * 4, below, under=late))] == [below]


def test_the_range_of_perhaps_no_lane_has_a_condition() -> None:
    found = active_range(touch(AT * 4, at_least_zero(N - 5 - AT)))
    assert found is not None
    assert [[evaluated(each, {"n": n}) >= 0 for n in (4, 5)] for each in found.conditions] == [[False, True]]
    assert active_range(touch(AT * 4, at_least_zero(-1 - AT))) is None


def test_nothing_is_claimed_of_another_address() -> None:
    assert active_range(touch(floor_div(AT, poly(3)) * 4, at_least_zero(N - 1 - AT))) is None
    gaps = poly(PID) * 2 * B + poly(LANE)
    assert active_range(touch(gaps * 4, at_least_zero(N - 1 - gaps))) is None
    assert active_range(touch(poly(PID) * poly(LANE), at_least_zero(N - 1 - AT))) is None


def test_every_other_element_ends_at_an_even_one() -> None:
    ends = active_range(touch(AT * 8, at_least_zero(N - 1 - AT * 2)))
    assert ends is not None
    assert evaluated(ends.high, {"n": 6}) == 16
    assert evaluated(ends.high, {"n": 7}) == 24
