"""Check Saha and Ye's bound, and its crossover at M = d^2.

The bound is Theta(min(N^2 d / sqrt(M), N^2 d^2 / M)).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import judge_measured, judge_traced
from ioaware.analysis.theory.claims.evidence import Evidence, Need, derived, need
from ioaware.analysis.theory.claims.io.orders import (
    FORWARD_ORDERS,
    HEAD_DIMS,
    fitting_flash2,
    place,
    sizes,
    square_tiling,
    tile_side,
)
from ioaware.analysis.theory.claims.standard_half import scarce_exponents
from ioaware.analysis.theory.lower_bounds import SAHA_YE, SAHA_YE_LARGE, SAHA_YE_SMALL, SEGMENTS, compulsory, leading_term

NAME = "saha_ye"
STATEMENT = "Exact attention moves Theta(min(N^2 d / sqrt(M), N^2 d^2 / M)) elements; the two regimes meet at M = d^2."
SOURCE = "Saha and Ye 2024, arXiv 2402.07443, Theorems 3.1, 3.5 and 3.7"

NOTES = (
    "The lower bound is for the standard matrix product and has explicit constants here: segments of M moves, N^2 d / (M/d + "
    "sqrt(3 M)) - M, which is at least N^2 d / ((1 + sqrt 3) sqrt M) - M below d^2 and N^2 d^2 / ((1 + sqrt 3) M) - M above.",
    "SquareTiling divides by row sums without subtracting the maximum, as printed, so it overflows where the scores do; its "
    "count does not depend on that.",
)
LOWEST = 0.3
"""The bound's constant: 1 / (1 + sqrt 3) = 0.366, less the cost of its -M.

The -M costs something where M <= N d / 4, and beyond, 4 N d is larger.
"""
_TRACED = (
    need("trace", "square_tiling", seq_len=24, head_dim=16, dtype="float32", block_m=4),
    need("trace", "square_tiling", seq_len=21, kv_len=30, head_dim=24, dtype="float16", block_m=8),
    need("trace", "square_tiling", seq_len=32, head_dim=32, dtype="float32", sram_elements=256),
)


_DERIVED = derived("square_tiling", seq_len=4096)


def points() -> tuple[Need, ...]:
    """Return runs of the tiled kernel."""
    return (*_TRACED, *_DERIVED)


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on closed forms, bounds and traces of the tiled kernel."""
    traced, rows = judge_traced("a", points(), evidence)
    parts = [
        *traced,
        *judge_measured("a", ("square_tiling",), evidence),
        _judge_live_set(),
        _judge_upper("M <= d^2", SAHA_YE_SMALL.name, 16),
        _judge_upper("M >= d^2", SAHA_YE_LARGE.name, 10),
        _judge_lower_bound(),
        _judge_orders(),
        _judge_equal_terms(),
        _judge_best_order(),
    ]
    return conclude(
        NAME,
        STATEMENT,
        SOURCE,
        parts=parts,
        exponents=list(scarce_exponents()),
        points=rows,
        notes=[*NOTES, *evidence.failures(points())],
    )


def _whole_range(d: int) -> Iterator[tuple[int, int]]:
    """Return N and M with 16 <= M <= N d and N >= 4 d."""
    for n in (4 * d, 64 * d):
        for m in sizes(16, n * d, 24):
            yield n, m


def _judge_live_set() -> Part:
    """Check that three tiles and the row sums of one of them fit in M, for every M."""
    ratios = [(f"M={m}", (3 * tile_side(m) ** 2 + tile_side(m)) / m) for m in range(4, 5000)]
    return judge_bounds("b", "square tiling: three tiles and a tile's row sums, over M", ratios, high=1)


def _judge_upper(where: str, bound: str, high: float) -> Part:
    """Check that an order that fits in M moves at most a constant times its term.

    The term is that of its regime, and the order never moves less than Theta.
    """
    small = bound == SAHA_YE_SMALL.name
    order, term = (square_tiling, SAHA_YE_SMALL) if small else (fitting_flash2, SAHA_YE_LARGE)
    ratios = [
        (place(n, d, m), order(n, d, m) / leading_term(term, _values(n, d, m)))
        for d in HEAD_DIMS
        for n, m in _whole_range(d)
        if (m <= d * d if small else m >= d * d)
    ]
    unit = "N^2 d / sqrt(M)" if small else "N^2 d^2 / M"
    name = "square tiling" if small else "flash2 with B_c = 1 and the largest B_r that fits"
    return judge_bounds("b", f"{where}: {name}, in units of {unit}", ratios, low=LOWEST, high=high)


def _judge_lower_bound() -> Part:
    """Check the explicit lower bound against the smaller term.

    It is at least a constant times that term, over the whole range.
    """
    ratios = [
        (place(n, d, m), _lower_bound(n, d, m) / leading_term(SAHA_YE, _values(n, d, m)))
        for d in HEAD_DIMS
        for n, m in _whole_range(d)
    ]
    says = "max(4 N d, N^2 d / (M/d + sqrt(3 M)) - M), in units of min(N^2 d / sqrt(M), N^2 d^2 / M)"
    return judge_bounds("c", says, ratios, low=LOWEST)


def _judge_orders() -> Part:
    """Check that no known order undercuts the explicit bound."""
    ratios = [
        (f"{order.__name__} {place(n, d, m)}", order(n, d, m) / _lower_bound(n, d, m))
        for order in FORWARD_ORDERS
        for d in HEAD_DIMS
        for n, m in _whole_range(d)
    ]
    return judge_bounds("c", "exact counts of five orders over that lower bound", ratios, low=1)


def _judge_equal_terms() -> Part:
    """Check that the two terms are equal at M = d^2.

    Below, the first is the smaller one.
    """
    rows: list[Comparison] = []
    for d in HEAD_DIMS:
        n = 4 * d
        at = [leading_term(term, _values(n, d, d * d)) for term in (SAHA_YE_SMALL, SAHA_YE_LARGE)]
        below = [leading_term(term, _values(n, d, d * d // 4)) for term in (SAHA_YE_SMALL, SAHA_YE)]
        above = [leading_term(term, _values(n, d, 4 * d * d)) for term in (SAHA_YE_LARGE, SAHA_YE)]
        rows += [
            Comparison("d", f"{place(n, d)} {where}", pair[0], pair[1])
            for where, pair in (("M=d^2", at), ("M=d^2/4", below), ("M=4d^2", above))
        ]
    return judge_comparisons("d", "the two terms are equal at M = d^2, and the minimum changes sides there", rows)


def _judge_best_order() -> Part:
    """Find the largest M at which square tiling moves less than FlashAttention-2.

    FlashAttention-2 has fitting blocks, and M is in units of d^2.
    """
    crossings: list[tuple[str, float]] = []
    for d in HEAD_DIMS:
        n = 64 * d
        fits = sizes(4 * d + 3, n * d, 400)  # from the M that holds one row and one column
        smaller = [m for m in fits if square_tiling(n, d, m) < fitting_flash2(n, d, m)]
        crossings.append((place(n, d), max(smaller, default=0) / (d * d)))
    return judge_bounds(
        "d", "the largest M at which square tiling moves less, over d^2: a constant", crossings, low=1 / 16, high=1
    )


def _values(n: int, d: int, m: int) -> dict[str, int]:
    return {"N": n, "N_k": n, "d": d, "M": m}


@cache
def _lower_bound(n: int, d: int, m: int) -> float:
    step = compulsory()
    touched = evaluate(step.reads.count + step.writes.count, {"N": n, "N_k": n, "d": d})
    return max(touched, leading_term(SEGMENTS, _values(n, d, m)))
