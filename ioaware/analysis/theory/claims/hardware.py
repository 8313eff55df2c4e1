"""Where a counter sees other requests than the algorithm's: fewer where the L1 can answer, more where registers spill.

Theorem 2 counts what a program asks of slow memory, and the counter sees what passes the L1. Two of the kernels ask again
for what an L1 may still hold. Algorithm 1 reads O, l and m again for every column block: hits, while those rows fit in
the L1 beside the kernel's shared memory (causal: of the last column blocks always, they are seen by few rows). The programs
of Algorithm 0's first product share tiles of Q and K with others on the same SM. All other loads are streamed past the L1.
Registers that a compiler spills travel through the same L1 to the L2: bytes that no algorithm asked for.
"""

from __future__ import annotations

import numpy as np

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.formulas.functions import index
from ioaware.analysis.theory.claims.evidence import Observation
from ioaware.analysis.theory.counting import FP32_BYTES, T_c, T_r
from ioaware.analysis.theory.counts.flash1 import visited_rows
from ioaware.machine import DEFAULT_MACHINE

L1_BYTES = DEFAULT_MACHINE.level("l1").capacity_bytes  # L1 and shared memory of one SM of the GPU that was recorded

_j = index("j")


def l1_savings_bytes(seen: Observation) -> int:
    """The most requested bytes, all reads, that the L1s can take away from a measurement of this work."""
    per_head = {"flash1": _flash1_savings, "standard": _standard_savings}.get(seen.target)
    return 0 if per_head is None else seen.heads * per_head(seen)


def _flash1_savings(seen: Observation) -> int:
    """O, l and m of the rows that a column block visits, where they fit: read for the block before, by the same program."""
    values = seen.values
    row_bytes = values["d"] * values["e"] + 2 * FP32_BYTES
    shared = max((launch.shared_bytes or 0 for launch in seen.observed.launches), default=0)
    later_blocks = np.arange(1, evaluate(T_c, values))
    rows = np.full(later_blocks.shape, values["N"])
    if seen.causal:
        rows = np.asarray(compile_expression(visited_rows(_j))({**values, str(_j): later_blocks}))
    return int(rows[rows * row_bytes <= L1_BYTES - shared].sum()) * row_bytes


def _standard_savings(seen: Observation) -> int:
    """Every read of Q and K in S = Q K^T but the first."""
    values = seen.values
    again = values["N"] * (evaluate(T_c, values) - 1) + values["N_k"] * (evaluate(T_r, values) - 1)
    return again * values["d"] * values["e"]


def spills(seen: Observation) -> bool:
    """Whether a kernel of the work keeps registers in local memory, by the compiler's own count."""
    return any(launch.local_bytes for launch in seen.observed.launches)


def as_asked(seen: Observation) -> bool:
    """The counter sees exactly what the algorithm asks for."""
    return not spills(seen) and l1_savings_bytes(seen) == 0
