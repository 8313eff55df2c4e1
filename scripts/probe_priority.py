"""Measure how an SM shares its time between programs with matmuls.

    PYTHONPATH=. python3 scripts/probe_priority.py FILE     (a CUDA GPU, Triton; about 60 s)

Every program streams the same tiles, which the L2 holds, and does the same work: one or two products a step, exponentials,
other arithmetic, reductions. Each notes the SM's clock at sixteenths. FILE gets one JSON object. Of every kernel and number of
programs on an SM it has `cycles`, those of a step of the program that ends first, and `progress`: the shares of their work
that the programs of an SM had done by then, the largest first. Both are means over the SMs. None is an attention kernel.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from ioaware.environment import gpu_environment, software_environment
from ioaware.measurement.nvml import load_nvml, open_gpu

sys.path.insert(0, str(Path(__file__).parent))
from probe_l2 import sm_number
from probe_partitions import cycles

COUNTS = 1, 2, 3, 4, 6, 8
"""Programs on an SM."""
MARKS, STEPS = 16, 768
PERIOD = 64
"""Steps after which tiles come again."""
Options = dict[str, int]
SHAPES: list[Options] = [
    {"ROWS": 64, "COLS": 64, "WIDTH": 64, "num_warps": 4},
    {"ROWS": 64, "COLS": 64, "WIDTH": 128, "num_warps": 4},
    {"ROWS": 64, "COLS": 128, "WIDTH": 64, "num_warps": 4},
    {"ROWS": 128, "COLS": 64, "WIDTH": 64, "num_warps": 4},
    {"ROWS": 128, "COLS": 64, "WIDTH": 64, "num_warps": 8},
    {"ROWS": 128, "COLS": 128, "WIDTH": 64, "num_warps": 8},
    {"ROWS": 32, "COLS": 64, "WIDTH": 32, "num_warps": 4},
    {"ROWS": 16, "COLS": 64, "WIDTH": 64, "num_warps": 4},
]
WORK: list[Options] = [
    *({"DOTS": dots, "EXPS": exps, "SUMS": 0, "REDUCTIONS": 0} for dots, exps in product((1, 2), (0, 1, 2))),
    *({"DOTS": dots, "EXPS": 0, "SUMS": sums, "REDUCTIONS": 0} for dots, sums in product((1, 2), (4, 12))),
    *({"DOTS": dots, "EXPS": 0, "SUMS": 0, "REDUCTIONS": count} for dots, count in product((1, 2), (1, 2))),
]


@triton.jit
def stepped(a, x, y, out, marks, sm, each, PERIOD: tl.constexpr, DOTS: tl.constexpr, EXPS: tl.constexpr, SUMS: tl.constexpr,
            REDUCTIONS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, WIDTH: tl.constexpr,
            MARKS: tl.constexpr):  # fmt: skip
    """Multiply a tile by tiles of `x`, work on it, and multiply it by those of `y`.

    The last where there are two products.
    """
    program = tl.program_id(0)
    tl.store(sm + program, sm_number())
    tl.store(marks + program * (MARKS + 1), cycles())
    rows, cols, width = tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, WIDTH)
    own = tl.load(a + program * ROWS * COLS + rows[:, None] * COLS + cols[None, :])
    total = tl.zeros((ROWS, COLS if DOTS == 2 else WIDTH), tl.float32)
    for mark in range(MARKS):
        for step in range(mark * each, (mark + 1) * each):
            start = (step % PERIOD) * COLS * WIDTH
            found = tl.dot(own, tl.load(x + start + cols[:, None] * WIDTH + width[None, :]))
            for _ in tl.static_range(REDUCTIONS):
                found -= tl.max(found, 1)[:, None]
            for _ in tl.static_range(EXPS):
                found = tl.exp2(found)
            for _ in tl.static_range(SUMS):
                found = tl.maximum(found * 0.5, 1.0)
            if DOTS == 2:
                total = tl.dot(found.to(tl.float16), tl.load(y + start + width[:, None] * COLS + cols[None, :]), total)
            else:
                total += found
        tl.debug_barrier()
        tl.store(marks + program * (MARKS + 1) + mark + 1, cycles())
    last = tl.arange(0, COLS if DOTS == 2 else WIDTH)
    tl.store(out + program * ROWS * 128 + rows[:, None] * 128 + last[None, :], total)


def noted(marks: np.ndarray, sm: np.ndarray, count: int) -> dict[str, Any] | None:
    """Return how far the programs of an SM are when its first one ends.

    None where an SM did not run `count` programs at once.
    """
    taken: list[float] = []
    progress: list[list[float]] = []
    for one in np.unique(sm):
        times = marks[sm == one]
        first = times[:, -1].min()
        if len(times) != count or times[:, 0].max() > first:
            return None
        done = [float(np.interp(first, row, np.arange(MARKS + 1) / MARKS)) for row in times]
        taken.append(float(first - times[:, 0].min()) / STEPS)
        progress.append(sorted(done, reverse=True))
    return {
        "cycles": round(float(np.mean(taken)), 1),
        "progress": np.round(np.mean(progress, 0), 4).tolist(),
        "deviation": np.round(np.std(progress, 0), 4).tolist(),
    }


def launches(sms: int) -> list[dict[str, Any]]:
    """Return what every kernel noted, from one program on an SM to as many as fit."""
    found: list[dict[str, Any]] = []
    a = torch.zeros(sms * COUNTS[-1] * 128 * 128, device="cuda", dtype=torch.float16)
    x, y = (torch.zeros(PERIOD * 128 * 128, device="cuda", dtype=torch.float16) for _ in range(2))
    out = torch.zeros(sms * COUNTS[-1] * 128 * 128, device="cuda")
    for shape, work in product(SHAPES, WORK):
        for count in COUNTS:
            programs = sms * count
            marks = torch.zeros(programs * (MARKS + 1), dtype=torch.int64, device="cuda")
            sm = torch.zeros(programs, dtype=torch.int32, device="cuda")
            arguments = a, x, y, out, marks, sm, STEPS // MARKS
            for _ in range(2):
                kernel = stepped[(programs,)](*arguments, PERIOD=PERIOD, MARKS=MARKS, num_stages=3, **shape, **work)
            what = {**shape, **work, "programs": count, "registers": kernel.n_regs, "spills": kernel.n_spills}
            notes = noted(marks.reshape(programs, -1).cpu().numpy(), sm.cpu().numpy(), count)
            if notes is None:
                break
            found.append({**what, "shared_bytes": kernel.metadata.shared, **notes})
    return found


def main() -> int:
    """Run the probe and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    found = launches(torch.cuda.get_device_properties(0).multi_processor_count)
    environment = {**gpu_environment(open_gpu(load_nvml()).limits), **software_environment()}
    given.file.write_text(json.dumps({"schema": 1, "launches": found, "environment": environment}) + "\n")
    print(f"{len(found)} launches noted")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
