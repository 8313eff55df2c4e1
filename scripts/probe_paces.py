"""Record how fast each SM is while all multiply matrices.

    PYTHONPATH=. python3 scripts/probe_paces.py FILE     (a CUDA GPU, Triton; half a minute)

Programs multiply tiles that they hold in shared memory, and nothing else: no memory decides how long one takes. Between
multiplications they may wait, so that the tensor cores draw less power. FILE gets one JSON object. It has the mean time of
a program on each SM, in nanoseconds and in clocks of the SM. SMs are in the order in which they got their first program.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from ioaware.environment import gpu_environment, software_environment
from ioaware.measurement.nvml import load_nvml, open_gpu

sys.path.insert(0, str(Path(__file__).parent))
from probe_placement import Memory, kernels_that_note

TILE, WARPS, TURNS = 128, 8, 24
STEPS = 2000
WAITS = 0, 1, 2, 4, 8, 16
"""Additions of each element between two multiplications."""
REPEATED = 3


@triton.jit(do_not_specialize=["steps", "waits"])
def multiply(x, y, out, steps, waits, TILE: tl.constexpr):
    """Multiply two tiles of memory `steps` times, with `waits` additions in between."""
    at = tl.arange(0, TILE)[:, None] * TILE + tl.arange(0, TILE)[None, :]
    left, right = tl.load(x + at), tl.load(y + at)
    total = tl.zeros((TILE, TILE), tl.float32)
    for _ in range(steps):
        total = tl.dot(left, right, total)
        for _ in range(waits):
            total += 1.0
    tl.store(out + at, total, mask=total == 0.5)


def paces(waits: int, turns: int, made: list[Any], memory: list[Memory]) -> dict[str, Any]:
    """Launch `turns` programs for each SM and return how long they took on each."""
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    x, y = (torch.randn(TILE, TILE, device="cuda").half() for _ in range(2))
    out = torch.empty(TILE, TILE, device="cuda")
    steps = STEPS * 8 // (8 + waits)

    def run() -> None:
        multiply[(sms * turns,)](x, y, out, steps, waits, TILE=TILE, num_warps=WARPS)

    run()
    torch.cuda.synchronize()
    if not memory:
        memory.append(Memory(next(one for one in made if getattr(one, "module", None) is not None)))
    memory[0].clear()
    run()
    torch.cuda.synchronize()
    noted = memory[0].read()
    clocks, sm, nanoseconds = noted[:, 2] - noted[:, 0], noted[:, 1], noted[:, 4] - noted[:, 3]
    order = sm[np.sort(np.unique(sm, return_index=True)[1])]
    busy_ns = float(noted[:, 4].max() - noted[:, 3].min())
    return {
        "waits": waits,
        "programs": len(noted),
        "steps": steps,
        "flops_per_s": round(2.0 * TILE**3 * steps * len(noted) / busy_ns * 1e9),
        "sm": order.tolist(),
        "mean_ns": _means(nanoseconds, sm, order),
        "mean_clocks": _means(clocks, sm, order),
    }


def _means(values: NDArray[np.int64], sm: NDArray[np.int64], order: NDArray[np.int64]) -> list[float]:
    return [round(float(values[sm == one].mean()), 1) for one in order.tolist()]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    memory: list[Memory] = []
    with tempfile.TemporaryDirectory(prefix="ioaware-") as cache, kernels_that_note() as made:
        os.environ["TRITON_CACHE_DIR"] = cache
        launches = [paces(waits, TURNS, made, memory) for _ in range(REPEATED) for waits in WAITS]
    environment = {**gpu_environment(open_gpu(load_nvml()).limits), **software_environment()}
    given.file.write_text(json.dumps({"schema": 1, "launches": launches, "environment": environment}) + "\n")
    print(f"{len(launches)} launches recorded")


if __name__ == "__main__":
    main()
