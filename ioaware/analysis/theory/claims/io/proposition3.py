"""Check Proposition 3: no exact attention moves o(N^2 d^2 / M) elements.

It is stated for all M in [d, N d], and there is no bound for each M.
"""

from __future__ import annotations

import numpy as np

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory import lower_bounds
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.evidence import Evidence, Need
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.claims.io.orders import FORWARD_ORDERS, HEAD_DIMS, place, square_tiling
from ioaware.analysis.theory.claims.numerics.attention import attention

NAME = "proposition3"
STATEMENT = "No exact attention moves o(N^2 d^2 / M) elements for all M in [d, N d]; for a single M that is no bound."
SOURCE = "Dao et al. 2022, arXiv 2205.14135, Proposition 3; for each M: Saha and Ye 2024, arXiv 2402.07443"

NOTES = (
    "The proof needs one point of the range, M = N d: there N^2 d^2 / M is N d, and every algorithm must touch 4 N d elements.",
    "It says nothing of any other M. At M = d, the other end of its range, SquareTiling moves o(N^2 d^2 / M) as d grows; what "
    "holds for each M is Saha and Ye's bound (claim saha_ye).",
)
SMALL = ((2, 1), (3, 2), (5, 3), (8, 4))
LENGTHS = (2**10, 2**14, 2**20)
POWERS_OF_FOUR = tuple(4**k for k in range(3, 9))
"""Values of d = M for which the tiles of side sqrt(M / 4) divide d."""


def points() -> tuple[Need, ...]:
    """Return no runs: the evidence is counted here."""
    return ()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on brute force and closed forms alone."""
    del evidence
    touched = _touched()
    samples = [({"d": d}, _square_ratio(d)) for d in POWERS_OF_FOUR]
    leading = [({"d": d}, ratio - _lower_order(d)) for d, (_, ratio) in zip(POWERS_OF_FOUR, samples, strict=True)]
    says = "square tiling at M = d, in units of N^2 d^2 / M"
    return conclude(
        NAME,
        STATEMENT,
        SOURCE,
        parts=[
            judge_comparisons("a", "elements of Q, K and V that change O, and elements of O: 4 N d, by brute force", touched),
            _judge_end_of_range(),
            _judge_orders(),
            _judge_other_end(),
        ],
        exponents=[
            *fit_exponents(says, {"d": -0.5}, samples, judged=False),
            *fit_exponents(f"{says}, leading term", {"d": -0.5}, leading),
        ],
        points=touched,
        notes=NOTES,
    )


def _touched() -> list[Comparison]:
    """Count the inputs whose change changes O, and the outputs.

    Inputs change one at a time, and the counts stand beside the closed form of the compulsory.
    """
    rows: list[Comparison] = []
    for n, d in SMALL:
        generator = np.random.default_rng(n)
        inputs = generator.normal(size=(3, n, d))
        output, needed = attention(*inputs), n * d
        for place_of in np.ndindex(*inputs.shape):
            changed = inputs.copy()
            changed[place_of] += 1
            needed += not np.allclose(attention(*changed), output, rtol=1e-9, atol=0)
        rows.append(Comparison("a", place(n, d), _compulsory(n, d), needed))
    return rows


def _compulsory(n: int, d: int) -> int:
    step = lower_bounds.compulsory()
    return evaluate(step.reads.count + step.writes.count, {"N": n, "N_k": n, "d": d})


def _judge_end_of_range() -> Part:
    """Check that at M = N d what must be touched is of the order N^2 d^2 / M.

    It is at least a constant times that.
    """
    ratios = [(place(n, d, n * d), _compulsory(n, d) * (n * d) / (n * d) ** 2) for n in LENGTHS for d in HEAD_DIMS]
    says = "at M = N d every algorithm moves at least 4 N^2 d^2 / M elements: those it must touch"
    return judge_bounds("b", says, ratios, low=4, high=4)


def _judge_orders() -> Part:
    """Check the known orders at M = N d."""
    ratios = [
        (f"{order.__name__} {place(n, d, n * d)}", order(n, d, n * d) / (n * d))
        for order in FORWARD_ORDERS
        for n in LENGTHS
        for d in HEAD_DIMS
    ]
    return judge_bounds("b", "known orders at M = N d, in units of N^2 d^2 / M", ratios, low=4)


def _judge_other_end() -> Part:
    """Check that at M = d an order exists with a lower count.

    It falls below every constant times N^2 d^2 / M.
    """
    ratios = [_square_ratio(d) for d in POWERS_OF_FOUR]
    falling = [
        (f"d = M = {d}", after / before) for d, before, after in zip(POWERS_OF_FOUR[1:], ratios, ratios[1:], strict=False)
    ]
    says = "square tiling at M = d: each fourfold d about halves the count in units of N^2 d^2 / M, which no constant bounds"
    return judge_bounds("c", says, [*falling, (f"d = M = {POWERS_OF_FOUR[-1]}", ratios[-1])], high=0.6)


def _square_ratio(d: int) -> float:
    n = 16 * d
    return square_tiling(n, d, d) / (n * n * d)


def _lower_order(d: int) -> float:
    """Return what S and the row sums add, written once: N^2 + 2 N + N d.

    It is in the same units.
    """
    n = 16 * d
    return (n * n + 2 * n + n * d) / (n * n * d)
