"""Measure which SMs share an L2 partition, and which SM a program runs on.

    PYTHONPATH=. python3 scripts/probe_partitions.py FILE     (a CUDA GPU, Triton; some seconds)

One SM reads memory. Lines whose home is the other partition have a copy in its own partition then. Each other SM follows a
chain of addresses through lines of its own: all of them are near it where it shares the partition, and half of them where it
does not. FILE gets one JSON object: cycles a line of every SM after every reader, and the SM of each program of some launches.
These have 16 programs to several waves, of equal length or each longer than the one before.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportCallIssue=false
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from ioaware.environment import gpu_environment, software_environment
from ioaware.measurement.nvml import load_nvml, open_gpu

sys.path.insert(0, str(Path(__file__).parent))
from probe_l2 import sm_number
from probe_replacement import meet

LINES = 512
"""Lines of 128 bytes that an SM follows."""
STEP = 32
"""Elements of 4 bytes of a line."""
READERS = 0, 2, 16, 64, 120, 128
SHARES_OF_A_WAVE = 0.12, 0.25, 0.5, 0.75, 1, 3
WARPS = 32, 16, 4
"""Warps of a program: 2, 4 and 16 of them run on an SM at once."""
STEPS = 2000
"""Steps of the first program of a launch."""


@triton.jit
def cycles():
    """Return the clock of the SM."""
    return tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def follow(x, reader, sm, taken, arrived, LINES: tl.constexpr, STEP: tl.constexpr):
    """Let the reader's SM read all lines of x [programs, LINES, STEP].

    Then each program follows the chain of its own.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    place = sm_number()
    tl.store(sm + program, place)
    if place == reader:
        for one in range(programs):
            total = tl.load(x + one * LINES * STEP + tl.arange(0, LINES) * STEP, cache_modifier=".cg")
            tl.store(taken + programs + program, tl.sum(total).to(tl.int64))
    meet(arrived, 1)
    at = program * LINES * STEP
    end = at + LINES * STEP
    begin = cycles()
    while at < end:  # the clock is read once the last address is known
        at = tl.load(x + at, cache_modifier=".cg")
    tl.store(taken + program, cycles() - begin)
    tl.store(sm + programs + program, at)


@triton.jit
def placed(sm, out, steps, growth):
    """Note the SM of a program that computes for a while."""
    program = tl.program_id(0)
    tl.store(sm + program, sm_number())
    total = tl.arange(0, 128).to(tl.float32)
    for _ in range(steps + program * growth):
        total = tl.exp2(total * 0.5)
    tl.store(out + program * 128 + tl.arange(0, 128), total)


def latencies(reader: int, programs: int, away: torch.Tensor) -> list[float]:
    """Return the cycles a line by SM, after one SM has read all lines.

    The chain of an SM goes from each of its lines to the next. Writing to `away` displaces them from the L2.
    """
    x = torch.arange(programs * LINES * STEP, dtype=torch.int32, device="cuda") + STEP
    sm, arrived = torch.zeros(2 * programs, dtype=torch.int32, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    taken = torch.zeros(2 * programs, dtype=torch.int64, device="cuda")
    away.add_(1)
    torch.cuda.synchronize()
    follow[(programs,)](x, reader, sm, taken, arrived, LINES, STEP, num_warps=4)
    found = [0.0] * programs
    for place, time in zip(sm[:programs].tolist(), taken[:programs].tolist(), strict=True):
        found[place] = time / LINES
    return found


def order(sms: int, share: float, warps: int, growth: int) -> dict[str, Any]:
    """Return the SM of each program of a launch.

    Its grid is a `share` of the programs that run at once, or of the SMs where that is below 1.
    """
    count = round(sms * share * (64 // warps if share > 1 else 1))
    sm, out = torch.zeros(count, dtype=torch.int32, device="cuda"), torch.zeros(count * 128, device="cuda")
    placed[(count,)](sm, out, STEPS, growth, num_warps=warps)
    return {"warps": warps, "growth": growth, "steps": STEPS, "sm": sm.tolist()}


def main() -> int:
    """Run the probes and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    away = torch.zeros(1 << 28, dtype=torch.int8, device="cuda")
    latencies(0, sms, away)
    near = {one: latencies(one, sms, away) for one in READERS if one < sms}
    orders = [order(sms, share, warps, growth) for warps in WARPS for share in SHARES_OF_A_WAVE for growth in (0, 16)]
    environment = {**gpu_environment(open_gpu(load_nvml()).limits), **software_environment()}
    given.file.write_text(json.dumps({"schema": 1, "cycles": near, "orders": orders, "environment": environment}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
