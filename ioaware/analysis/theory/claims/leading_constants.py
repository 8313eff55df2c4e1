"""Define leading terms of Theorem 2's exact counts, and the M of a pair of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from sympy import Expr

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.evidence import Observation
from ioaware.analysis.theory.counting import FP32_BYTES, N, N_k, T_c, T_r, d, e
from ioaware.analysis.theory.counts.standard import c

POWERS: Mapping[str, Mapping[str, int]] = {
    "standard": {"N": 2, "d": 0, "M": 0},
    "flash1": {"N": 2, "d": 2, "M": -1},
    "flash2": {"N": 2, "d": 2, "M": -1},
}
"""Powers of N, d and M in the leading term of requested bytes.

The blocks are those that M sets.
"""


@cache
def leading_elements(target: str) -> Expr:
    """Return the leading term per head, in elements.

    FlashAttention: Q and O of every pass over the rows, and O's writes, 12 N^2 d^2 / M with the paper's B_c. FlashAttention-2:
    K and V of every row block, 8 N^2 d^2 / M with its B_r. Standard, idealised: S and P, 4 N^2.
    """
    return {"flash1": 3 * N * d * T_c, "flash2": 2 * N_k * d * T_r, "standard": 4 * N * N_k}[target]


@cache
def leading_bytes(target: str) -> Expr:
    """Return the same in bytes.

    Standard attention keeps S in fp32, written once and read c times, and P in the inputs' dtype.
    """
    if target == "standard":
        return N * N_k * (FP32_BYTES * (1 + c) + 2 * e)
    return e * leading_elements(target)


def observed_leading_bytes(seen: Observation) -> int | None:
    """Return the observed count less the exact count's lower-order terms.

    It is for fits of the leading term.
    """
    predicted = seen.predicted.requested.total_bytes if seen.predicted.requested else None
    if seen.requested_bytes is None or predicted is None:
        return None
    return seen.requested_bytes - (predicted - seen.heads * evaluate(leading_bytes(seen.target), seen.values))


def memory_of(seen: Observation) -> int:
    """Return M in elements for which the paper's rule gives the outer loop's block.

    That is 4 d B_c; in FlashAttention-2's order of loops, and for standard attention, 4 d B_r.
    """
    values = seen.values
    return 4 * values["d"] * values["B_c" if seen.target == "flash1" else "B_r"]
