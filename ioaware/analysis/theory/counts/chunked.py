"""Count attention in query and key chunks exactly.

There is a partial result per key chunk.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.formulas.functions import ceil_div, index, series, smallest
from ioaware.analysis.theory.counting import B_c, B_r, Counts, Elements, N, N_k, Step, T_c, T_r, d
from ioaware.analysis.theory.counts.flash2 import visible_keys
from ioaware.analysis.theory.lower_bounds import compulsory

SOURCE = "Rabe and Staats 2021, arXiv 2112.05682, section 3"

_i = index("i")


@cache
def counts(causal: bool) -> Counts:
    """Count Q once, K and V per query chunk, and partial results per key chunk.

    These are d + 2 fp32 numbers a query, written and read.

    The extra memory is that of one query chunk: B_r (d + 2) T_c, O(sqrt N) for B_c = sqrt(N_k).
    """
    rows, keys = smallest(B_r, N - _i * B_r), visible_keys(_i)
    chunks = series(rows * ceil_div(keys, B_c), _i, T_r) if causal else N * T_c
    partial = Elements(fp32=(d + 2) * chunks)
    step = Step(
        "query chunks",
        reads=Elements(inputs=N * d + 2 * d * (series(keys, _i, T_r) if causal else N_k * T_r)) + partial,
        writes=Elements(inputs=N * d) + partial,
        flops=4 * d * (series(rows * keys, _i, T_r) if causal else N * N_k),
    )
    return Counts("chunked", SOURCE, (step,), extra=Elements(fp32=B_r * (d + 2) * T_c), compulsory=compulsory(causal))
