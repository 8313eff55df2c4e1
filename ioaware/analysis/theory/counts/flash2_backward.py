"""Count FlashAttention-2's backward pass exactly, Algorithm 2.

It has the two forms of real kernels.

Both begin with D = rowsum(dO O) and have a pass over column blocks for dK and dV. In one form that pass adds dQ to an fp32
accumulator by atomics. In the other a second pass over row blocks computes dQ, and recomputes S and dP.
"""

from __future__ import annotations

from functools import cache

import sympy
from sympy import Expr

from ioaware.analysis.formulas.functions import index, series, smallest
from ioaware.analysis.theory.counting import B_c, B_r, Counts, Elements, N, N_k, Step, T_c, T_r, d
from ioaware.analysis.theory.counts.flash1 import visited_rows
from ioaware.analysis.theory.counts.flash2 import visible_keys
from ioaware.analysis.theory.lower_bounds import compulsory_backward

SOURCE = "Dao 2023, arXiv 2307.08691, Algorithm 2"

_i, _j = index("i"), index("j")


def _column_pass(causal: bool, matmuls: int) -> tuple[Expr, Elements, Elements, Expr]:
    """Return visited rows, reads, writes and FLOPs of the pass over column blocks.

    It has so many matmuls per tile.
    """
    visits = series(visited_rows(_j), _j, T_c) if causal else N * T_c
    pairs = series(visited_rows(_j) * smallest(B_c, N_k - _j * B_c), _j, T_c) if causal else N * N_k
    reads = Elements(inputs=2 * N_k * d + 2 * d * visits, fp32=2 * visits)
    return visits, reads, Elements(inputs=2 * N_k * d), 2 * matmuls * d * pairs


@cache
def atomic(causal: bool) -> Counts:
    """Count dQ by atomics.

    The pre-pass zeroes the accumulator, and a last pass rounds it.
    """
    visits, reads, writes, flops = _column_pass(causal, matmuls=5)
    steps = (
        Step("D = rowsum(dO O), dQ = 0", reads=Elements(inputs=2 * N * d), writes=Elements(fp32=N + N * d)),
        Step("dK, dV, atomic dQ", reads=reads, writes=writes, flops=flops, atomics=Elements(fp32=d * visits)),
        Step("round dQ", reads=Elements(fp32=N * d), writes=Elements(inputs=N * d)),
    )
    extra = Elements(fp32=N + N * d)
    return Counts("flash2_bwd_atomic", SOURCE, steps, extra=extra, compulsory=compulsory_backward(causal))


def gradients(causal: bool, group: Expr) -> tuple[Step, ...]:
    """Return the steps of the two-kernel form per query head.

    `group` of the heads share a key head.
    """
    _, reads, writes, flops = _column_pass(causal, matmuls=4)
    shared = 2 * N_k * d * (1 - 1 / group)  # of the column pass: K_j, V_j, dK_j and dV_j once for the whole group
    keys = series(visible_keys(_i), _i, T_r) if causal else N_k * T_r
    pairs = series(smallest(B_r, N - _i * B_r) * visible_keys(_i), _i, T_r) if causal else N * N_k
    return (
        Step("D = rowsum(dO O)", reads=Elements(inputs=2 * N * d), writes=Elements(fp32=N)),
        Step(
            "dK, dV",
            reads=Elements(inputs=reads.inputs - shared, fp32=reads.fp32),
            writes=Elements(inputs=writes.inputs - shared),
            flops=flops,
        ),
        Step(
            "dQ",
            reads=Elements(inputs=2 * N * d + 2 * d * keys, fp32=2 * N),
            writes=Elements(inputs=N * d),
            flops=6 * d * pairs,
        ),
    )


@cache
def counts(causal: bool) -> Counts:
    """Count dQ by a second kernel.

    It reads Q, dO, L and D once, and K and V per row block.
    """
    steps = gradients(causal, sympy.S.One)
    return Counts("flash2_bwd", SOURCE, steps, extra=Elements(fp32=N), compulsory=compulsory_backward(causal))


@cache
def printed(*, needed_only: bool) -> Counts:
    """Count Algorithm 2 to the letter, unmasked, dQ through slow memory.

    N_k = N: 7 N d + N + T_c (6 N d + 2 N).

    Line 9 loads O_i, which no line uses, and dQ_i, which line 15 loads again. `needed_only` leaves out both:
    7 N d + N + T_c (4 N d + 2 N).
    """
    loads = 3 if needed_only else 5
    steps = (
        Step("D = rowsum(dO O), dQ = 0", reads=Elements(inputs=2 * N * d), writes=Elements(inputs=N * d, fp32=N)),
        Step(
            "K/V outer loop",
            reads=Elements(inputs=2 * N_k * d + loads * N * d * T_c, fp32=2 * N * T_c),
            writes=Elements(inputs=N * d * T_c + 2 * N_k * d),
            flops=10 * N * N_k * d,
        ),
    )
    name = "flash2 backward, minimal" if needed_only else "flash2 backward, literal"
    return Counts(name, SOURCE, steps, extra=Elements(fp32=N), compulsory=compulsory_backward())
