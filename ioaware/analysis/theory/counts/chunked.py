"""Count attention in query and key chunks exactly, unmasked.

There is a partial result per key chunk.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.theory.counting import B_r, Counts, Elements, N, N_k, Step, T_c, T_r, d
from ioaware.analysis.theory.lower_bounds import compulsory

SOURCE = "Rabe and Staats 2021, arXiv 2112.05682, section 3"


@cache
def counts(_causal: bool) -> Counts:
    """Count Q once, K and V per query chunk, and partial results per key chunk.

    These are d + 2 fp32 numbers a query, written and read.

    The extra memory is that of one query chunk: B_r (d + 2) T_c, O(sqrt N) for B_c = sqrt(N_k).
    """
    partial = Elements(fp32=N * (d + 2) * T_c)
    step = Step(
        "query chunks",
        reads=Elements(inputs=N * d + 2 * N_k * d * T_r) + partial,
        writes=Elements(inputs=N * d) + partial,
        flops=4 * N * N_k * d,
    )
    return Counts("chunked", SOURCE, (step,), extra=Elements(fp32=B_r * (d + 2) * T_c), compulsory=compulsory())
