"""Count the FlashAttention paper's backward passes exactly, Algorithms 3 (standard) and 4, unmasked."""

from __future__ import annotations

from functools import cache

from ioaware.analysis.theory.counting import Counts, Elements, N, N_k, Step, T_c, d
from ioaware.analysis.theory.counts.flash1 import PAPER_BLOCKS

SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm "


@cache
def standard() -> Counts:
    """Count Algorithm 3, each matrix moved once per line, P kept from the forward pass: 7 N^2 + 8 N d for N_k = N."""
    matmul = 2 * N * N_k * d
    steps = (
        Step("dV = P^T dO", reads=Elements(N * N_k + N * d), writes=Elements(N_k * d), flops=matmul),
        Step("dP = dO V^T", reads=Elements(N * d + N_k * d), writes=Elements(N * N_k), flops=matmul),
        Step("dS = P (dP - rowsum(P dP))", reads=Elements(2 * N * N_k), writes=Elements(N * N_k)),
        Step("dQ = dS K", reads=Elements(N * N_k + N_k * d), writes=Elements(N * d), flops=matmul),
        Step("dK = dS^T Q", reads=Elements(N * N_k + N * d), writes=Elements(N_k * d), flops=matmul),
    )
    return Counts("standard backward", f"{SOURCE}3", steps, extra=Elements(2 * N * N_k))


@cache
def flash1() -> Counts:
    """Count Algorithm 4 to the letter, without dropout.

    dK and dV are initialised in HBM (line 5) although they accumulate on chip (line 8). For N_k = N:
    7 N d + T_c (5 N d + 2 N), that is 20 N^2 d^2 / M + 8 N^2 d / M with the paper's B_c.
    """
    steps = (
        Step("initialise dQ, dK, dV", reads=Elements(), writes=Elements(N * d + 2 * N_k * d)),
        Step(
            "K/V outer loop",
            reads=Elements(inputs=2 * N_k * d + 4 * N * d * T_c, fp32=2 * N * T_c),
            writes=Elements(inputs=N * d * T_c + 2 * N_k * d),
            flops=10 * N * N_k * d,
        ),
    )
    return Counts("flash1 backward", f"{SOURCE}4", steps, extra=Elements(), blocks=PAPER_BLOCKS)
