"""Count attention with log-softmax weights exactly.

It is counted in flash order and by its linear form. There is no mask.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.theory.counting import Counts, Elements, N, N_k, Step, T_r, d
from ioaware.analysis.theory.lower_bounds import compulsory

SOURCE = "O = (S - lse 1^T) V with the state (m, l, u = S V, w = 1^T V)"
LINEAR_SOURCE = "O = Q (K^T V) - lse (1^T V)"


@cache
def counts(_causal: bool) -> Counts:
    """Count Q once, K and V per row block, O once.

    It is as FlashAttention-2 without the log-sum-exp.
    """
    step = Step(
        "row blocks",
        reads=Elements(inputs=N * d + 2 * N_k * d * T_r),
        writes=Elements(inputs=N * d),
        flops=4 * N * N_k * d,
    )
    return Counts("logsoftmax_attention", SOURCE, (step,), extra=Elements(), compulsory=compulsory())


@cache
def linear(_causal: bool) -> Counts:
    """Count K and V once for K^T V, then Q once and K per row block.

    The latter are for the log-sum-exp, and V is read once.
    """
    step = Step(
        "K^T V, then row blocks",
        reads=Elements(inputs=2 * N_k * d + N * d + N_k * d * T_r),
        writes=Elements(inputs=N * d),
        flops=2 * N * N_k * d + 2 * (N + N_k) * d**2,
    )
    return Counts("logsoftmax_linear", LINEAR_SOURCE, (step,), extra=Elements(), compulsory=compulsory())
