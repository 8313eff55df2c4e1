"""Count how much shared memory the driver configures, under ncu.

The rest of an SM's unified data cache is its L1. Programs differ in warps, registers and bytes of shared memory, and as many
run on each SM as fit.

    PYTHONPATH=. python3 scripts/probe_carveout.py FILE [--small]     (a CUDA GPU, Triton, ncu with counters; a minute)

FILE gets one JSON object.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAssignmentType=false, reportIndexIssue=false
from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from probe_runs import Probe, main

PROGRAMS = 132 * 64
LANES, WORD_BYTES = 32, 4
WARPS = (1, 2, 4, 8, 16)
HELD = (1, 16, 32, 64, 128)
"""Words that each thread keeps in registers."""
SHARED_BYTES = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""At least as many as a word of each thread takes."""
COUNTERS = {
    "config_bytes": Metric("launch__shared_mem_config_size", "byte"),
    "shared_bytes": Metric("launch__shared_mem_per_block_dynamic", "byte"),
    "registers": Metric("launch__registers_per_thread", "count"),
}


@gluon.jit
def held(x, y, HELD: gl.constexpr, WARPS: gl.constexpr, WORDS: gl.constexpr):
    """Keep HELD words a thread in registers, and WORDS of a program in shared memory."""
    wide: gl.constexpr = gl.BlockedLayout([HELD], [32], [WARPS], [0])
    narrow: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    kept = gl.allocate_shared_memory(gl.float32, [WORDS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    part = kept.slice(0, 32 * WARPS)
    at = gl.arange(0, 32 * WARPS * HELD, wide)
    value = gl.load(x + at)
    part.store(gl.load(x + gl.arange(0, 32 * WARPS, narrow)))
    total = gl.sum(value, 0)
    gl.store(y + at, value * total)
    gl.store(y + gl.arange(0, 32 * WARPS, narrow), part.load(narrow))


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    found: list[Probe] = []
    most = LANES * max(WARPS) * max(HELD)
    x, y = (torch.randn(most, device="cuda") for _ in range(2))
    for warps in WARPS:
        for words in HELD:
            for size in SHARED_BYTES:
                if size >= LANES * warps * WORD_BYTES:
                    what = {"probe": "carveout", "warps": warps, "held_words": words, "allocated_bytes": size}
                    options = {"HELD": words, "WARPS": warps, "WORDS": size // WORD_BYTES, "num_warps": warps}
                    found.append(Probe(what, partial(held[(PROGRAMS,)], x, y, **options)))
    return found[:3] if small else found


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
