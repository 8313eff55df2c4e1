"""A chain of dependent loads: its time is the latency of the memory that answers."""

import triton
import triton.language as tl


@triton.jit
def chase(table, out, steps):
    at = tl.load(table)
    for _ in range(steps):
        at = tl.load(table + at)
    tl.store(out, at)
