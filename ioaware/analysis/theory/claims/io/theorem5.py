"""Check Theorem 5: the backward pass moves Theta(N d + N^2) elements.

By Algorithm 4 it moves Theta(N^2 d^2 / M).
"""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Exponent, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import judge_measured, judge_traced
from ioaware.analysis.theory.claims.evidence import Evidence, Need, derived, need
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.claims.io.orders import (
    HEAD_DIMS,
    paper_flash1_backward,
    place,
    sizes,
    square_tiling_backward,
    tiled_standard_backward,
)
from ioaware.analysis.theory.counting import N, T_c, d
from ioaware.analysis.theory.counts import standard_backward
from ioaware.analysis.theory.lower_bounds import SEGMENTS, leading_term

NAME = "theorem5"
STATEMENT = (
    "For d <= M <= N d, Algorithm 4 (backward) moves Theta(N^2 d^2 / M) elements; Algorithm 3 Theta(N d + N^2), given M = "
    "Omega(d^2)."
)
SOURCE = "Dao et al. 2022, arXiv 2205.14135, Theorem 5; its condition on M: Li et al. 2024, arXiv 2410.09397"

NOTES = (
    "As in Theorem 2 the paper states the standard half for all d <= M <= N d and charges each operand of a product once; "
    "below d^2 every order of the standard product moves more (part d, by the explicit lower bound).",
    "Algorithm 4's blocks hold 4 B_c d >= M elements of K, V, dK and dV alone, so it never runs in an M of its own rule (claim "
    "capacity); Theta does not depend on that.",
)
TARGETS = ("standard_bwd", "flash1_bwd", "flash2_bwd", "flash2_bwd_atomic")
LENGTHS = (2**8, 2**12, 2**16)
LARGE = {"N": 2**17, "d": 64, "M": 2**16}
VARIED = {"N": tuple(2**k for k in range(12, 19)), "d": (16, 32, 64, 128, 256), "M": tuple(2**k for k in range(12, 19))}
POWERS = {"N": 2.0, "d": 2.0, "M": -1.0}
LEADING = 5 * N * d * T_c
"""Q, O, dO and dQ of every pass over the rows, and dQ's writes.

They are 20 N^2 d^2 / M with the paper's B_c.
"""


_DERIVED = derived(*TARGETS, seq_len=4096)


def points() -> tuple[Need, ...]:
    """Return runs of the four kernels, and a series of Algorithm 4 in N and in M."""
    return (*_grid(), *_DERIVED, *(wanted for needs in _series().values() for wanted in needs))


def _grid() -> tuple[Need, ...]:
    shapes = (
        {"seq_len": 48, "head_dim": 16, "dtype": "float32", "block_m": 16, "block_n": 16},
        {"seq_len": 41, "kv_len": 56, "head_dim": 24, "dtype": "float16", "block_m": 16, "block_n": 32, "causal": True},
    )
    return tuple(need("trace", target, **shape) for target in TARGETS for shape in shapes)


def _series() -> dict[str, tuple[Need, ...]]:
    def sized(n: int, m: int) -> Need:
        return need("trace", "flash1_bwd", seq_len=n, head_dim=16, dtype="float32", sram_elements=m)

    return {"N": tuple(sized(n, 1024) for n in (64, 96, 128)), "M": tuple(sized(96, m) for m in (768, 1024, 1536))}


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on traces and closed forms."""
    parts, rows = judge_traced("a", (*_grid(), *_DERIVED), evidence)
    parts += [_judge_theta(), _judge_constant(), *_judge_standard(), _judge_scarce()]
    parts += judge_measured("a", ("standard_bwd", "flash1_bwd", "flash2_bwd"), evidence)
    exponents = [*_exact_exponents(), *_traced_exponents(evidence)]
    notes = [*NOTES, *evidence.failures(points())]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, exponents=exponents, points=rows, notes=notes)


def _judge_theta() -> Part:
    """Check Algorithm 4 over d <= M <= N d.

    T_c >= N d / M below, and T_c <= 4 N d / M + 1 and d >= 16 above.
    """
    ratios = [
        (place(n, head, m), paper_flash1_backward(n, head, m) * m / (n * head) ** 2)
        for head in HEAD_DIMS
        for n in LENGTHS
        for m in sizes(head, n * head, 16)
    ]
    says = "flash1 backward: exact elements are Theta(N^2 d^2 / M) for all d <= M <= N d, in units of N^2 d^2 / M"
    return judge_bounds("b", says, ratios, low=5, high=7 + 5 * (5 + 2 / 16))


def _judge_constant() -> Part:
    n, m = 2**24, 2**16
    rows = [
        Comparison("b", place(n, head, m), 20 * (1 + 2 / (5 * head)), paper_flash1_backward(n, head, m) * m / (n * head) ** 2)
        for head in HEAD_DIMS
    ]
    says = "flash1 backward: elements / (N^2 d^2 / M) tends to 20(1 + 2/(5d)) for N >> M / d"
    return judge_comparisons("b", says, rows, tolerance=1e-3)


def _judge_standard() -> Iterator[Part]:
    """Check Algorithm 3 as the paper idealises it, and in tiles for M >= d^2."""
    ideal = standard_backward.idealised()
    ratios = [
        (place(n, head), ideal.total_elements({"N": n, "N_k": n, "d": head}) / (n * n + n * head))
        for n in LENGTHS
        for head in HEAD_DIMS
    ]
    says = "standard backward, idealised (each matrix once per line): Theta(N d + N^2), 7 N^2 + 8 N d"
    yield judge_bounds("c", says, ratios, low=7, high=8)
    tiled = [
        (place(n, head, m), tiled_standard_backward(n, head, m) / (n * n + n * head))
        for head in HEAD_DIMS
        for n in (4 * head, 64 * head)
        for m in sizes(head * head, n * head, 8)
    ]
    yield judge_bounds("c", "standard backward, tiled, M >= d^2: Theta(N d + N^2)", tiled, low=7, high=40)


def _judge_scarce() -> Part:
    """Check that below d^2 no order attains N d + N^2.

    The lower bound is d / sqrt(M) times that, up to a constant.
    """
    places = [(n, head, m) for head in (64, 256) for n in (4 * head, 64 * head) for m in sizes(16, head * head // 16, 8)]
    ratios = [
        (place(*at), leading_term(SEGMENTS, _values(*at)) * at[2] ** 0.5 / ((at[0] + at[1]) * at[0] * at[1])) for at in places
    ]
    ratios += [
        (f"square tiles {place(*at)}", square_tiling_backward(*at) * at[2] ** 0.5 / ((at[0] + at[1]) * at[0] * at[1]))
        for at in places
    ]
    says = (
        "M < d^2: lower bound and square tiles are (N d + N^2) d / sqrt(M) up to constants, so Theta(N d + N^2) does not hold"
    )
    return judge_bounds("d", says, ratios, low=0.25, high=40)


def _exact_exponents() -> Iterator[Exponent]:
    for variable, values in VARIED.items():
        ats = [{**LARGE, variable: value} for value in values]
        whole = [(at, paper_flash1_backward(at["N"], at["d"], at["M"])) for at in ats]
        leading = [(at, evaluate(LEADING, {**at, "N_k": at["N"], "B_c": -(-at["M"] // (4 * at["d"]))})) for at in ats]
        yield from fit_exponents("flash1 backward: exact elements", {variable: POWERS[variable]}, whole, judged=False)
        yield from fit_exponents("flash1 backward: exact elements, leading term", {variable: POWERS[variable]}, leading)


def _traced_exponents(evidence: Evidence) -> Iterator[Exponent]:
    """Fit traced bytes less the lower-order terms of the exact count."""
    for variable, needs in _series().items():
        samples: list[tuple[dict[str, int], int | None]] = []
        for seen in filter(None, map(evidence.at, needs)):
            at = {"N": seen.values["N"], "M": 4 * seen.values["d"] * seen.values["B_c"]}
            predicted, observed = seen.predicted.requested and seen.predicted.requested.total_bytes, seen.requested_bytes
            if predicted is None or observed is None:
                samples.append((at, None))
            else:
                samples.append((at, observed - predicted + 4 * evaluate(LEADING, seen.values)))
        yield from fit_exponents("flash1 backward: traced bytes, leading term", {variable: POWERS[variable]}, samples)


def _values(n: int, head: int, m: int) -> dict[str, int]:
    return {"N": n, "N_k": n, "d": head, "M": m}
