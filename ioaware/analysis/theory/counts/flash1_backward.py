"""Count FlashAttention's backward pass exactly, Algorithm 4: K/V outer loop.

DQ passes through HBM each step.

Like Algorithm 1's, the counts do not depend on B_r, unless causal.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.formulas.functions import index, series, smallest
from ioaware.analysis.theory.counting import B_c, Counts, Elements, N, N_k, Step, T_c, d
from ioaware.analysis.theory.counts.flash1 import PAPER_BLOCKS, visited_rows
from ioaware.analysis.theory.lower_bounds import compulsory_backward

SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm 4"

_j = index("j")


@cache
def counts(causal: bool) -> Counts:
    """Count Algorithm 4 to the letter, without dropout.

    dK and dV are initialised in HBM (line 5) although they accumulate on chip (line 8). Each column block reads K_j, V_j once
    (line 7), and per visited row reads Q, O, dO, dQ, l, m (line 10) and writes dQ (line 21). For N_k = N, unmasked:
    7 N d + T_c (5 N d + 2 N), that is 20 N^2 d^2 / M + 8 N^2 d / M with the paper's B_c.
    """
    visits = series(visited_rows(_j), _j, T_c) if causal else N * T_c
    pairs = series(visited_rows(_j) * smallest(B_c, N_k - _j * B_c), _j, T_c) if causal else N * N_k
    steps = (
        Step("initialise dQ, dK, dV", reads=Elements(), writes=Elements(inputs=N * d + 2 * N_k * d)),
        Step(
            "K/V outer loop",
            reads=Elements(inputs=2 * N_k * d + 4 * d * visits, fp32=2 * visits),
            writes=Elements(inputs=d * visits + 2 * N_k * d),
            flops=10 * d * pairs,
        ),
    )
    return Counts("flash1_bwd", SOURCE, steps, extra=Elements(), blocks=PAPER_BLOCKS, compulsory=compulsory_backward(causal))
