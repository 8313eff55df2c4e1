"""Count FlashAttention-2 exactly, Algorithm 1: Q outer loop.

O, l, m stay on chip, logsumexp is written.

The counts do not depend on B_c, unless causal: each row block reads all of K and V once whatever the column block is.
"""

from __future__ import annotations

from functools import cache

from sympy import Expr

from ioaware.analysis.formulas.functions import ceil_div, index, largest, series, smallest
from ioaware.analysis.theory.counting import B_c, B_r, Counts, Elements, M, N, N_k, Step, T_r, d

SOURCE = "Dao 2023, arXiv 2307.08691, Algorithm 1"

# The paper gives no rule for the blocks, so this is FlashAttention-1's with the roles swapped, as the loops are. Keeping B_r =
# min(ceil(M/4d), d) would give 2 N^2 + 2 N d + N for every M >= 4 d^2, which does not depend on M at all.
PAPER_BLOCKS = {"B_r": ceil_div(M, 4 * d), "B_c": smallest(ceil_div(M, 4 * d), d)}

_i = index("i")


def visible_keys(i: Expr) -> Expr:
    """Return the rows of K and V that causal row block i reads, aligned bottom-right.

    These are whole column blocks up to the last one that its last row sees; none if that row sees no key.
    """
    seen_by_last_row = largest(0, smallest((i + 1) * B_r, N) + N_k - N)
    return smallest(N_k, B_c * ceil_div(seen_by_last_row, B_c))


def _over_rows(term: Expr) -> Expr:
    """Return the sum over the T_r row blocks i of Q."""
    return series(term, _i, T_r)


@cache
def counts(causal: bool) -> Counts:
    """Count Q, K, V, O and the fp32 logsumexp L.

    Q is counted once (line 4), K and V per row block (line 7), O and L once (lines 14, 15).
    """
    keys = _over_rows(visible_keys(_i)) if causal else N_k * T_r
    pairs = _over_rows(smallest(B_r, N - _i * B_r) * visible_keys(_i)) if causal else N * N_k
    steps = (
        Step(
            "Q outer loop",
            reads=Elements(inputs=N * d + 2 * d * keys),
            writes=Elements(inputs=N * d, fp32=N),
            flops=4 * d * pairs,
        ),
    )
    return Counts("flash2", SOURCE, steps, extra=Elements(fp32=N), blocks=PAPER_BLOCKS)
