"""Exact counts of standard attention's backward pass, Algorithm 3.

They are as five tiled kernels, and as the paper idealises it.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.theory.counting import Counts, Elements, N, N_k, Step, T_c, T_r, d
from ioaware.analysis.theory.counts.standard import c
from ioaware.analysis.theory.lower_bounds import compulsory_backward

SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm 3"


@cache
def counts(causal: bool) -> Counts:
    """Count the five products of the backward pass in their tiling.

    They are P^T dO and dS^T Q in column panels, dO V^T in B_r x B_c tiles with all of d, dS by rows, and dS K in row panels.

    P and dS have the inputs' dtype, dP is fp32. The causal mask is in P as zeros and skips nothing.
    """
    matmul = 2 * N * N_k * d
    column_panels = Elements(inputs=N * N_k + N * d * T_c)
    steps = (
        Step("dV = P^T dO", reads=column_panels, writes=Elements(inputs=N_k * d), flops=matmul),
        Step(
            "dP = dO V^T",
            reads=Elements(inputs=N * d * T_c + N_k * d * T_r),
            writes=Elements(fp32=N * N_k),
            flops=matmul,
        ),
        Step(
            "dS = P (dP - rowsum(P dP))",
            reads=Elements(inputs=c * N * N_k, fp32=c * N * N_k),
            writes=Elements(inputs=N * N_k),
        ),
        Step("dQ = dS K", reads=Elements(inputs=N * N_k + N_k * d * T_r), writes=Elements(inputs=N * d), flops=matmul),
        Step("dK = dS^T Q", reads=column_panels, writes=Elements(inputs=N_k * d), flops=matmul),
    )
    extra = Elements(inputs=N * N_k, fp32=N * N_k)
    return Counts("standard_bwd", SOURCE, steps, extra=extra, compulsory=compulsory_backward(causal))


@cache
def idealised() -> Counts:
    """Count Algorithm 3, each matrix moved once per line.

    P is kept from the forward pass, and this gives 7 N^2 + 8 N d for N_k = N.
    """
    matmul = 2 * N * N_k * d
    steps = (
        Step("dV = P^T dO", reads=Elements(N * N_k + N * d), writes=Elements(N_k * d), flops=matmul),
        Step("dP = dO V^T", reads=Elements(N * d + N_k * d), writes=Elements(N * N_k), flops=matmul),
        Step("dS = P (dP - rowsum(P dP))", reads=Elements(2 * N * N_k), writes=Elements(N * N_k)),
        Step("dQ = dS K", reads=Elements(N * N_k + N_k * d), writes=Elements(N * d), flops=matmul),
        Step("dK = dS^T Q", reads=Elements(N * N_k + N * d), writes=Elements(N_k * d), flops=matmul),
    )
    return Counts("idealised backward", SOURCE, steps, extra=Elements(2 * N * N_k))
