"""Count attention one row at a time exactly: K and V are read for every row.

Unmasked.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.theory.counting import Counts, Elements, N, N_k, Step, d
from ioaware.analysis.theory.lower_bounds import compulsory

SOURCE = "Ye 2023, From Online Softmax to FlashAttention"


@cache
def online(_causal: bool) -> Counts:
    """Count two passes per row: q and K, with the logits written in fp32.

    Then the logits and V.
    """
    step = Step(
        "rows",
        reads=Elements(inputs=N * d + 2 * N * N_k * d, fp32=N * N_k),
        writes=Elements(inputs=N * d, fp32=N * N_k),
    )
    return Counts("online_rowwise", SOURCE, (step,), extra=Elements(fp32=N * N_k), compulsory=compulsory())


@cache
def flash(_causal: bool) -> Counts:
    """Count one pass per row over K and V.

    It is FlashAttention-2's count with B_r = 1, without the log-sum-exp.
    """
    step = Step("rows", reads=Elements(inputs=N * d + 2 * N * N_k * d), writes=Elements(inputs=N * d))
    return Counts("flash_rowwise", SOURCE, (step,), extra=Elements(), compulsory=compulsory())
