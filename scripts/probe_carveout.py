"""Count how much shared memory the driver configures, under ncu.

The rest of an SM's unified data cache is its L1. Programs differ in warps, registers and bytes of shared memory, and as many
run on each SM as fit.

    PYTHONPATH=. python3 scripts/probe_carveout.py FILE [--small]     (a CUDA GPU, ncu with counters; half a minute)

FILE gets one JSON object.
"""

# pyright: basic
from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from driver_kernels import Kernel
from probe_runs import Probe, main

PROGRAMS, LANES, SM_REGISTERS = 132 * 64, 32, 64 * 1024
WARPS = (1, 2, 3, 4, 6, 8, 16, 32)
HELD = (8, 14, 24, 32, 40, 56, 72, 96, 120, 152, 200)
"""Words that each thread keeps in registers."""
SHARED_BYTES = (0, 128, *(int(256 * 1.25**step) // 16 * 16 for step in range(24)), 49152)
"""Of a program."""
COUNTERS = {
    "config_bytes": Metric("launch__shared_mem_config_size", "byte"),
    "shared_bytes": Metric("launch__shared_mem_per_block_dynamic", "byte"),
    "registers": Metric("launch__registers_per_thread", "count"),
}


def held(words: int) -> str:
    """Return the PTX of a kernel that keeps so many words a thread in registers.

    Its first program does, the others end at once.
    """
    loads = "\n".join(f"ld.volatile.global.u32 %word{one}, [%data+{4 * one}];" for one in range(words))
    stores = "\n".join(f"st.volatile.global.u32 [%data+{4 * one}], %word{words - 1 - one};" for one in range(words))
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry held(.param .u64 pointer) {{
.reg .u32 %program, %word<{words}>;
.reg .u64 %data;
.reg .pred %later;
ld.param.u64 %data, [pointer];
mov.u32 %program, %ctaid.x;
setp.ne.u32 %later, %program, 0;
@%later bra done;
{loads}
{stores}
done: ret;
}}
"""


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description.

    The order is one by chance, so that none depends on the one before.
    """
    data = torch.zeros(max(HELD), dtype=torch.int32, device="cuda")
    found: list[Probe] = []
    for words in HELD:
        kernel = Kernel(held(words), "held")
        for warps in WARPS:
            if kernel.registers * LANES * warps <= SM_REGISTERS:
                for size in SHARED_BYTES:
                    found.append(Probe({"warps": warps}, partial(kernel.launch, data, PROGRAMS, warps, size)))
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(found))
    return [found[place] for place in order[: 3 if small else None]]


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
