"""Count FlashAttention exactly, Algorithm 1: K/V outer loop.

O, l and m pass through HBM each step.

The counts do not depend on B_r, unless causal: the inner loop visits every row once whatever the row block is.
"""

from __future__ import annotations

from functools import cache

from sympy import Expr

from ioaware.analysis.formulas.functions import ceil_div, floor_div, index, largest, series, smallest
from ioaware.analysis.theory.counting import ZERO, B_c, B_r, Counts, Elements, M, N, N_k, Step, T_c, d

SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm 1"

# Line 1 of the algorithm. "A quarter of M each for Q, K, V and O": S, l and m do not fit beside them.
PAPER_BLOCKS = {"B_c": ceil_div(M, 4 * d), "B_r": smallest(ceil_div(M, 4 * d), d)}

_j = index("j")


def visited_rows(j: Expr) -> Expr:
    """Return v_j, the rows of Q visited for causal column block j.

    The inner loop visits them, and the mask is aligned bottom-right.

    Row r sees key j B_c when r >= j B_c + N - N_k; the loop starts at the row block that holds the first such row.
    """
    first_row = largest(0, j * B_c + N - N_k)
    return N - B_r * floor_div(first_row, B_r)


def _over_columns(term: Expr) -> Expr:
    """Return the sum over the T_c column blocks j of K and V."""
    return series(term, _j, T_c)


@cache
def counts(causal: bool) -> Counts:
    """Count Algorithm 1.

    Line 2 initialises O, l, m. Each column block reads K_j, V_j once (line 6), and per visited row of Q reads Q, O, l, m
    (line 8) and writes O, l, m (lines 12, 13). O has the inputs' dtype, l and m are fp32.
    Every row is visited T_c times, or, causal, from the first row block that sees a key of the column block.
    """
    visits = _over_columns(visited_rows(_j)) if causal else N * T_c
    pairs = _over_columns(visited_rows(_j) * smallest(B_c, N_k - _j * B_c)) if causal else N * N_k
    steps = (
        Step("initialise O, l, m", reads=Elements(), writes=Elements(inputs=N * d, fp32=2 * N), flops=ZERO),
        Step(
            "K/V outer loop",
            reads=Elements(inputs=2 * N_k * d + 2 * d * visits, fp32=2 * visits),
            writes=Elements(inputs=d * visits, fp32=2 * visits),
            flops=4 * d * pairs,
        ),
    )
    return Counts("flash1", SOURCE, steps, extra=Elements(fp32=2 * N), blocks=PAPER_BLOCKS)
