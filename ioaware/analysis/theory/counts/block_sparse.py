"""Count block-sparse FlashAttention exactly, Algorithm 5.

It is for a band of blocks and the first column blocks.
"""

from __future__ import annotations

from functools import cache

from ioaware.analysis.formulas.functions import index, largest, positive_symbols, series, smallest
from ioaware.analysis.theory.counting import B_c, B_r, Counts, Elements, N, N_k, Step, T_c, T_r, d
from ioaware.analysis.theory.counts.flash1 import PAPER_BLOCKS, visited_rows
from ioaware.analysis.theory.lower_bounds import compulsory

# Blocks on each side of the diagonal block, and column blocks that every row sees.
w, g = positive_symbols("w g")

SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm 5"

_j = index("j")


@cache
def counts(causal: bool) -> Counts:
    """Count Algorithm 1 with only the nonzero blocks' rows.

    There are rho of them together, and line 6 is counted for every column block.

    Column block j < g visits all N rows, column block j >= g those of row blocks j - w to j + w.
    Causal, both begin at the first row block that sees a key of the column block.
    """
    globals_, j = smallest(g, T_c), _j + smallest(g, T_c)
    end, first = smallest(N, B_r * smallest(T_r, j + w + 1)), B_r * largest(0, j - w)
    first = largest(first, N - visited_rows(j)) if causal else first
    rows = largest(0, end - first)
    every, width = visited_rows(_j), smallest(B_c, N_k - _j * B_c)
    seeing = series(every, _j, globals_) if causal else N * globals_
    rho = seeing + series(rows, _j, T_c - globals_)
    full = series(every * width, _j, globals_) if causal else N * smallest(N_k, B_c * globals_)
    pairs = full + series(rows * smallest(B_c, N_k - j * B_c), _j, T_c - globals_)
    steps = (
        Step("initialise O, l, m", reads=Elements(), writes=Elements(inputs=N * d, fp32=2 * N)),
        Step(
            "K/V outer loop over nonzero blocks",
            reads=Elements(inputs=2 * N_k * d + 2 * d * rho, fp32=2 * rho),
            writes=Elements(inputs=d * rho, fp32=2 * rho),
            flops=4 * d * pairs,
        ),
    )
    floor = compulsory()
    written = Step("compulsory", reads=Elements(), writes=floor.writes)  # which inputs the output needs depends on the band
    return Counts("block_sparse", SOURCE, steps, extra=Elements(fp32=2 * N), blocks=PAPER_BLOCKS, compulsory=written)
