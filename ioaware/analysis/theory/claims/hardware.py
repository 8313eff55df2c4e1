"""Bound the differences between counters and an algorithm's requests.

L1 hits lower the counters, and spills raise them.

Theorem 2 counts requests to slow memory; the counter sees the requests that pass the L1. Two kernels request data that an L1
may still hold. Algorithm 1 reads O, l and m again for every column block. These reads hit while those rows fit in the L1 beside
the kernel's shared memory. Where causal, they always hit for the last column blocks, which few rows see. The programs of
Algorithm 0's first product share tiles of Q and K on an SM. All other loads are streamed past the L1. Spilled registers travel
through the same L1 to the L2; no algorithm requests these bytes.
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
    """Return the most requested read bytes that L1 hits can remove from a measurement."""
    per_head = {"flash1": _flash1_savings, "standard": _standard_savings}.get(seen.target)
    return 0 if per_head is None else seen.heads * per_head(seen)


def _flash1_savings(seen: Observation) -> int:
    """Return the bytes of O, l and m that were read before and fit in L1.

    A program read them for the column block before.
    """
    values = seen.values
    row_bytes = values["d"] * values["e"] + 2 * FP32_BYTES
    shared = max((launch.shared_bytes or 0 for launch in seen.observed.launches), default=0)
    later_blocks = np.arange(1, evaluate(T_c, values))
    rows = np.full(later_blocks.shape, values["N"])
    if seen.causal:
        rows = np.asarray(compile_expression(visited_rows(_j))({**values, str(_j): later_blocks}))
    return int(rows[rows * row_bytes <= L1_BYTES - shared].sum()) * row_bytes


def _standard_savings(seen: Observation) -> int:
    """Return every read of Q and K in S = Q K^T but the first."""
    values = seen.values
    again = values["N"] * (evaluate(T_c, values) - 1) + values["N_k"] * (evaluate(T_r, values) - 1)
    return again * values["d"] * values["e"]


def spills(seen: Observation) -> bool:
    """Return whether a kernel keeps registers in local memory.

    The compiler's count decides it.
    """
    return any(launch.local_bytes for launch in seen.observed.launches)


def matches_algorithm(seen: Observation) -> bool:
    """Return whether the counter sees exactly the algorithm's requests."""
    return not spills(seen) and l1_savings_bytes(seen) == 0
