"""Count attention one row at a time exactly: K and V are read for every row.

Causal reads the keys that the row sees.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.theory.counting import Counts, Elements, N, N_k, Step, d
from ioaware.analysis.theory.lower_bounds import compulsory, visible_pairs

SOURCE = "Ye 2023, From Online Softmax to FlashAttention"


@cache
def online(causal: bool) -> Counts:
    """Count two passes per row: q and K, with the logits written in fp32.

    Then the logits and V.
    """
    pairs = visible_pairs(causal)
    step = Step(
        "rows",
        reads=Elements(inputs=N * d + 2 * pairs * d, fp32=pairs),
        writes=Elements(inputs=N * d, fp32=pairs),
    )
    return Counts("online_rowwise", SOURCE, (step,), extra=Elements(fp32=N * N_k), compulsory=compulsory(causal))


@cache
def flash(causal: bool) -> Counts:
    """Count one pass per row over K and V.

    It is FlashAttention-2's count with B_r = 1, without the log-sum-exp.
    """
    step = Step("rows", reads=Elements(inputs=N * d + 2 * visible_pairs(causal) * d), writes=Elements(inputs=N * d))
    return Counts("flash_rowwise", SOURCE, (step,), extra=Elements(), compulsory=compulsory(causal))
