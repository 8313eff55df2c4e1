"""Exact counts of the algorithms for M < d^2, in square tiles.

The side is B_r = isqrt(M // 4), and they are forward and backward. Causal masks S and skips nothing.
"""

from __future__ import annotations

from functools import cache

from sympy import Expr

from ioaware.analysis.formulas.functions import ceil_div
from ioaware.analysis.theory.counting import B_r, Counts, Elements, N, N_k, Step, T_r, d
from ioaware.analysis.theory.lower_bounds import compulsory, compulsory_backward

T_k, T_d = ceil_div(N_k, B_r), ceil_div(d, B_r)
PAIRS: Expr = N * N_k


@cache
def counts(causal: bool) -> Counts:
    """Count Saha and Ye's SquareTiling, with S and the row sums in fp32.

    It reads 3 N d T + N^2 T_d + N and writes N^2 + N + N d.
    """
    steps = (
        Step(
            "S = Q K^T, row sums of exp(S)",
            reads=Elements(inputs=N * d * T_k + N_k * d * T_r),
            writes=Elements(fp32=PAIRS + N),
            flops=2 * PAIRS * d,
        ),
        Step(
            "O = exp(S) V / row sums",
            reads=Elements(inputs=N_k * d * T_r, fp32=PAIRS * T_d + N),
            writes=Elements(inputs=N * d),
            flops=2 * PAIRS * d,
        ),
    )
    source = "Saha and Ye 2024, arXiv 2402.07443, Algorithm 1"
    return Counts("square_tiling", source, steps, extra=Elements(fp32=PAIRS + N), compulsory=compulsory(causal))


@cache
def backward(_causal: bool) -> Counts:
    """Count S, dP, dV, dK and dQ each in square tiles.

    P and dS are in the inputs' dtype, and the total is about 18 N^2 d / sqrt(M).
    """
    product, matmul = PAIRS * T_d, 2 * PAIRS * d
    steps = (
        Step("D = rowsum(dO O)", reads=Elements(inputs=2 * N * d), writes=Elements(fp32=N)),
        Step(
            "P, dS",
            reads=Elements(inputs=2 * N * d * T_k + 2 * N_k * d * T_r, fp32=2 * N),
            writes=Elements(inputs=2 * PAIRS),
            flops=2 * matmul,
        ),
        Step("dV = P^T dO", reads=Elements(inputs=product + N * d * T_k), writes=Elements(inputs=N_k * d), flops=matmul),
        Step("dK = dS^T Q", reads=Elements(inputs=product + N * d * T_k), writes=Elements(inputs=N_k * d), flops=matmul),
        Step("dQ = dS K", reads=Elements(inputs=product + N_k * d * T_r), writes=Elements(inputs=N * d), flops=matmul),
    )
    source = "Li et al. 2024, arXiv 2410.09397, the order for M = o(d^2)"
    extra = Elements(inputs=2 * PAIRS, fp32=N)
    return Counts("small_cache_bwd", source, steps, extra=extra, compulsory=compulsory_backward())
