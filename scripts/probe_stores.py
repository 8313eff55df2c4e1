"""Count loads of memory that a program has loaded and stored, under ncu.

    PYTHONPATH=. python3 scripts/probe_stores.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission; a minute)

FILE gets one JSON object. Each program loads a row of its own, stores it in place, and loads it again. Instructions of 16 bytes
store whole sectors; narrow ones, where the compiler knows no alignment, store parts of them.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
from __future__ import annotations

import sys
from functools import partial
from itertools import product
from pathlib import Path

import torch
import triton
import triton.language as tl

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from probe_runs import Probe, main

SMS, WAVES, WARPS_OF_AN_SM = 132, 4, 32
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op"
COUNTERS = {
    "requested_read_bytes": Metric("l1tex__m_xbar2l1tex_read_bytes.sum", "byte"),
    "requested_write_bytes": Metric("l1tex__m_l1tex2xbar_write_bytes.sum", "byte"),
    "load_sectors": Metric(f"{SECTORS}_ld.sum", "count"),
    "hit_sectors": Metric(f"{SECTORS}_ld_lookup_hit.sum", "count"),
    "store_sectors": Metric(f"{SECTORS}_st.sum", "count"),
    "config_bytes": Metric("launch__shared_mem_config_size", "byte"),
    "registers": Metric("launch__registers_per_thread", "count"),
}
ELEMENTS = {"float16": torch.float16, "float32": torch.float32}
STARTS = (None, 0, 1, 8)
"""Element of the memory where rows begin.

None where the compiler knows that they are aligned.
"""
STORES = ("none", "same", "twice")
"""Whether the row is stored before it is loaded again, and how often."""


@triton.jit
def aligned(x, out, cols, CHUNK: tl.constexpr, STORES: tl.constexpr, LAST: tl.constexpr):
    """Load, store and load rows that begin at multiples of 16 elements."""
    again(x + tl.program_id(0).to(tl.int64) * cols, out, cols, CHUNK, STORES, LAST)


@triton.jit(do_not_specialize=["cols", "start"])
def anywhere(x, out, cols, start, CHUNK: tl.constexpr, STORES: tl.constexpr, LAST: tl.constexpr):
    """The same with rows of which nothing is known."""
    again(x + start + tl.program_id(0).to(tl.int64) * cols, out, cols, CHUNK, STORES, LAST)


@triton.jit
def again(row, out, cols, CHUNK: tl.constexpr, STORES: tl.constexpr, LAST: tl.constexpr):
    """Load a row in chunks, store it, and load it again."""
    at, found = tl.arange(0, CHUNK), tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        value = tl.load(row + start + at, eviction_policy="evict_last" if LAST else "")
        found = tl.maximum(found, tl.max(value.to(tl.float32), 0))
        for _ in tl.static_range(STORES):
            tl.store(row + start + at, value)
    tl.debug_barrier()
    for start in range(0, cols, CHUNK):
        value = tl.load(row + start + at, eviction_policy="evict_first" if LAST else "")
        found = tl.maximum(found, tl.max(value.to(tl.float32) * (1.0 + found), 0))
    tl.store(out + tl.program_id(0), found)


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    found: list[Probe] = []
    memory = torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")
    out = torch.zeros(SMS * WAVES * WARPS_OF_AN_SM, device="cuda")
    for name, start, stores, last, warps, row_bytes in product(ELEMENTS, STARTS, STORES, (False, True), (4, 8), (8192, 16384)):
        x, programs = memory.view(ELEMENTS[name]), SMS * WAVES * WARPS_OF_AN_SM // warps
        cols = row_bytes // x.element_size()
        what = {"elements": name, "start": start, "stores": stores, "evict_last": last, "warps": warps}
        what |= {"row_bytes": row_bytes, "programs": programs}
        options = {"CHUNK": min(cols, 4096), "STORES": STORES.index(stores), "LAST": last, "num_warps": warps}
        run = (
            partial(aligned[(programs,)], x, out, cols)
            if start is None
            else partial(anywhere[(programs,)], x, out, cols, start)
        )
        found.append(Probe(what, partial(run, **options)))
    return found[:: len(found) // 8] if small else found


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
