"""Check the bound on the backward pass for every M.

It is min((N^2 d^2 + N d^3) / M, (N^2 d + N d^2) / sqrt(M)).
"""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import judge_measured, judge_traced
from ioaware.analysis.theory.claims.evidence import Evidence, Need, derived, need
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.claims.io.orders import (
    BACKWARD_ORDERS,
    HEAD_DIMS,
    fitting_flash2_backward,
    place,
    sizes,
    square_tiling_backward,
)
from ioaware.analysis.theory.lower_bounds import SEGMENTS, compulsory_backward, leading_term

NAME = "backward_bound"
STATEMENT = (
    "The backward pass moves Theta(min((N^2 d^2 + N d^3) / M, (N^2 d + N d^2) / sqrt(M))) elements, with the crossover at M = "
    "d^2."
)
SOURCE = "Li et al. 2024, arXiv 2410.09397"

NOTES = (
    "The lower bound here is that of one product alone, dP = dO V^T (or S = Q K^T), which every order computes: the segment "
    "bound of claim saha_ye with explicit constants. Checked for N >= d and M <= N d.",
    "Square tiles keep P and dS in slow memory; FlashAttention-2's two kernels recompute them, with the largest blocks that "
    "fit in M.",
)
LOWEST = 0.15
_TRACED = (
    need("trace", "small_cache_bwd", seq_len=24, head_dim=16, dtype="float32", block_m=8),
    need("trace", "small_cache_bwd", seq_len=21, kv_len=30, head_dim=24, dtype="float16", block_m=8),
)


_DERIVED = derived("small_cache_bwd", seq_len=4096)


def points() -> tuple[Need, ...]:
    """Return runs of the kernels in square tiles."""
    return (*_TRACED, *_DERIVED)


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on closed forms, the lower bound and traces."""
    parts, rows = judge_traced("a", points(), evidence)
    parts += [
        *judge_measured("a", ("small_cache_bwd",), evidence),
        *_judge_upper(),
        _judge_lower(),
        _judge_orders(),
        _judge_equal_terms(),
        _judge_best_order(),
    ]
    sides = [{"N": 2**16, "d": 512, "M": 4 * side**2} for side in (2, 4, 8, 16, 32)]
    samples = [(at, square_tiling_backward(**{name.lower(): value for name, value in at.items()})) for at in sides]
    least = [(at, count - _written_once(at["N"], at["d"])) for at, count in samples]
    exponents = [
        *fit_exponents("square tiles: exact elements", {"M": -0.5}, samples, judged=False),
        *fit_exponents("square tiles: exact elements, leading term", {"M": -0.5}, least),
    ]
    notes = [*NOTES, *evidence.failures(points())]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, exponents=exponents, points=rows, notes=notes)


def _written_once(n: int, d: int) -> int:
    """Return what square tiles move whatever M is.

    P, dS, D and its inputs, L and D are read, and dQ, dK and dV are written.
    """
    return 2 * n * n + 5 * n * d + 3 * n


def _terms(n: int, d: int, m: int) -> tuple[float, float]:
    """Return the terms for M <= d^2 and for M >= d^2."""
    return (n * n * d + n * d * d) / m**0.5, (n * n * d * d + n * d**3) / m


def _whole_range() -> Iterator[tuple[int, int, int]]:
    for d in HEAD_DIMS:
        for n in (d, 4 * d, 64 * d):
            yield from ((n, d, m) for m in sizes(16, n * d, 20))


def _judge_upper() -> Iterator[Part]:
    """Check that an order meets the term of each regime up to a constant."""
    small = [(place(*at), square_tiling_backward(*at) / _terms(*at)[0]) for at in _whole_range() if at[2] <= at[1] ** 2]
    large = [(place(*at), fitting_flash2_backward(*at) / _terms(*at)[1]) for at in _whole_range() if at[2] >= at[1] ** 2]
    yield judge_bounds("b", "M <= d^2: square tiles, in units of (N^2 d + N d^2) / sqrt(M)", small, low=LOWEST, high=40)
    says = "M >= d^2: flash2's two kernels with the largest blocks that fit, in units of (N^2 d^2 + N d^3) / M"
    yield judge_bounds("b", says, large, low=LOWEST, high=40)


def _lower_bound(n: int, d: int, m: int) -> float:
    step, values = compulsory_backward(), {"N": n, "N_k": n, "d": d, "M": m}
    return max(evaluate(step.reads.count + step.writes.count, values), leading_term(SEGMENTS, values))


def _judge_lower() -> Part:
    ratios = [(place(*at), _lower_bound(*at) / min(_terms(*at))) for at in _whole_range()]
    return judge_bounds("c", "max(7 N d, N^2 d / (M/d + sqrt(3 M)) - M) over the smaller term, all M", ratios, low=LOWEST)


def _judge_orders() -> Part:
    ratios = [
        (f"{order.__name__} {place(*at)}", order(*at) / _lower_bound(*at)) for order in BACKWARD_ORDERS for at in _whole_range()
    ]
    return judge_bounds("c", "exact counts of four orders over that lower bound", ratios, low=1)


def _judge_equal_terms() -> Part:
    """Check that the terms are equal at M = d^2.

    Below, the first is the smaller one.
    """
    rows: list[Comparison] = []
    for d in HEAD_DIMS:
        for n in (d, 64 * d):
            small, large = _terms(n, d, d * d)
            rows.append(Comparison("d", f"{place(n, d)} M=d^2", small, large))
            rows.append(Comparison("d", f"{place(n, d)} M=d^2/4", _terms(n, d, d * d // 4)[0], min(_terms(n, d, d * d // 4))))
            rows.append(Comparison("d", f"{place(n, d)} M=4d^2", _terms(n, d, 4 * d * d)[1], min(_terms(n, d, 4 * d * d))))
    return judge_comparisons("d", "the two terms are equal at M = d^2, and the minimum changes sides there", rows)


def _judge_best_order() -> Part:
    """Find the largest M at which square tiles move less, in units of d^2."""
    crossings: list[tuple[str, float]] = []
    for d in HEAD_DIMS:
        n = 64 * d
        smaller = [
            m for m in sizes(6 * d + 5, n * d, 300) if square_tiling_backward(n, d, m) < fitting_flash2_backward(n, d, m)
        ]
        crossings.append((place(n, d), max(smaller, default=0) / (d * d)))
    return judge_bounds(
        "d", "the largest M at which square tiles move less, over d^2: a constant", crossings, low=1 / 16, high=4
    )
