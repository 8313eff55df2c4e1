"""Measure rows that programs read twice with eviction policies, under ncu.

They show what an L1 and an L2 keep where loads say how long their lines are needed. Compilers give such policies to rows that a
kernel reads again.

    PYTHONPATH=. python3 scripts/probe_eviction.py FILE [--small]     (a CUDA GPU, Triton, ncu with counters; a minute)

FILE gets one JSON object. Each program reads a row of its own twice, in four waves of programs. None of the probes is an
attention kernel.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from probe_rows import BYTES_OF_A_THREAD, COUNTERS, ELEMENT_BYTES, KIB, SMS, WARPS, WAVES
from probe_runs import Probe, main

ROWS_KIB = (32, 64, 96, 128, 160, 192, 224, 256, 320, 448, 640)
"""Bytes of the rows of all programs on an SM.

Those of the last two are more than the L2 keeps.
"""
POLICIES = (
    ("", ""),
    ("evict_last", "evict_first"),
    ("evict_last", ""),
    ("evict_last", "evict_last"),
    ("", "evict_first"),
    ("evict_first", ""),
    ("evict_first", "evict_first"),
)
"""Policies of the two passes."""


@triton.jit
def rows(x, y, out, cols, CHUNK: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, STORE: tl.constexpr):
    """Read a row twice in chunks, each pass with a policy.

    Where STORE the second pass stores it.
    """
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, CHUNK)
    found = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, CHUNK):
        value = tl.load(x + row * cols + start + at, eviction_policy=FIRST).to(tl.float32)
        found = tl.maximum(found, tl.max(value * (1.0 + found), 0))
    tl.debug_barrier()
    for start in range(0, cols, CHUNK):
        value = tl.load(x + row * cols + start + at, eviction_policy=SECOND).to(tl.float32)
        found = tl.maximum(found, tl.max(value * (1.0 + found), 0))
        if STORE:
            tl.store(y + row * cols + start + at, (value + found).to(y.dtype.element_ty))
    tl.store(out + row, found)


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    found: list[Probe] = []
    most = SMS * WAVES * max(ROWS_KIB) * KIB // ELEMENT_BYTES
    x, y = (torch.randn(most, device="cuda", dtype=torch.float16) for _ in range(2))
    out = torch.zeros(SMS * WAVES * max(WARPS.values()), device="cuda")
    for warps in (4, 16):
        chunk, count = warps * 32 * BYTES_OF_A_THREAD // ELEMENT_BYTES, SMS * WARPS[warps] * WAVES
        for first, second in POLICIES:
            for size in ROWS_KIB:
                cols = max(1, size * KIB // WARPS[warps] // ELEMENT_BYTES // chunk) * chunk
                for store in (False, True):
                    what = {"probe": "rows", "warps": warps, "programs": WARPS[warps], "row_bytes": cols * ELEMENT_BYTES}
                    what |= {"rows": count, "first": first, "second": second, "stores": store}
                    what |= {"chunk_bytes": chunk * ELEMENT_BYTES}
                    options = {"CHUNK": chunk, "FIRST": first, "SECOND": second, "STORE": store, "num_warps": warps}
                    found.append(Probe(what, partial(rows[(count,)], x, y, out, cols, **options)))
    return found[:3] if small else found


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
