"""Exact counts of standard attention, Algorithm 0.

They are as three tiled kernels, and as the paper idealises it.

The paper charges each matrix once per line. A tiled GEMM reads each operand once per block of the other, so only the
tiled counts can be met by a kernel; the idealised ones need M of about N d.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.formulas.functions import ceil_div, positive_symbols
from ioaware.analysis.theory.counting import B_r, Counts, Elements, N, N_k, Step, T_c, T_r, d

SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm 0"

# Reads of a row of S by the softmax: 1 when the row stays on chip, 2 when it does not (statistics, then values).
(c,) = positive_symbols("c")


@cache
def counts(causal: bool) -> Counts:
    """Count S = Q K^T in tiles, P = softmax(S) by rows, O = P V in row panels.

    The tiles are B_r x B_c with all of d.

    S is kept in fp32 and P in the inputs' dtype. The causal mask is applied to S, and skips nothing: Algorithm 0
    computes all of it, so `causal` changes no count.
    """
    del causal
    steps = (
        Step(
            "S = Q K^T",
            reads=Elements(inputs=N * d * T_c + N_k * d * T_r),
            writes=Elements(fp32=N * N_k),
            flops=2 * N * N_k * d,
        ),
        Step("P = softmax(S)", reads=Elements(fp32=c * N * N_k), writes=Elements(inputs=N * N_k)),
        Step(
            "O = P V",
            reads=Elements(inputs=N * N_k + N_k * d * T_r),
            writes=Elements(inputs=N * d),
            flops=2 * N * N_k * d,
        ),
    )
    return Counts("standard", SOURCE, steps, extra=Elements(inputs=N * N_k, fp32=N * N_k))


@cache
def idealised() -> Counts:
    """Count Algorithm 0 as Theorem 2 does, each matrix moved once per line.

    This gives 4 N^2 + 4 N d for N_k = N.
    """
    steps = (
        Step("S = Q K^T", reads=Elements(N * d + N_k * d), writes=Elements(N * N_k), flops=2 * N * N_k * d),
        Step("P = softmax(S)", reads=Elements(N * N_k), writes=Elements(N * N_k)),
        Step("O = P V", reads=Elements(N * N_k + N_k * d), writes=Elements(N * d), flops=2 * N * N_k * d),
    )
    return Counts("idealised", SOURCE, steps, extra=Elements(2 * N * N_k))


@cache
def row_panels() -> Counts:
    """Count the tiled kernels with a whole row of S in a panel (B_c >= N_k).

    All is in the inputs' dtype.

    For N_k = N: 4 N^2 + 2 N d + 2 N d T_r, which is FlashAttention-2's count with the same B_r plus 4 N^2 - N.
    """
    steps = (
        Step("S = Q K^T", reads=Elements(N * d + N_k * d * T_r), writes=Elements(N * N_k), flops=2 * N * N_k * d),
        Step("P = softmax(S)", reads=Elements(N * N_k), writes=Elements(N * N_k)),
        Step("O = P V", reads=Elements(N * N_k + N_k * d * T_r), writes=Elements(N * d), flops=2 * N * N_k * d),
    )
    return Counts("row panels", SOURCE, steps, extra=Elements(2 * N * N_k))


@cache
def square_tiling() -> Counts:
    """Count Saha and Ye's B_r x B_r tiles, the best known order for M < d^2.

    It has B_r = isqrt(M // 4).

    The softmax divides without subtracting the maximum, as printed, and keeps the row sums (N elements) in slow memory.
    """
    T_k, T_d = ceil_div(N_k, B_r), ceil_div(d, B_r)
    steps = (
        Step(
            "S = Q K^T, row sums of exp(S)",
            reads=Elements(N * d * T_k + N_k * d * T_r),
            writes=Elements(N * N_k + N),
            flops=2 * N * N_k * d,
        ),
        Step(
            "O = exp(S) V / row sums",
            reads=Elements(N * N_k * T_d + N_k * d * T_r + N),
            writes=Elements(N * d),
            flops=2 * N * N_k * d,
        ),
    )
    return Counts("square tiling", "Saha and Ye 2024, arXiv 2402.07443, Algorithm 1", steps, extra=Elements(N * N_k + N))
