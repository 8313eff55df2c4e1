"""Count what is read again from HBM while other programs store, under ncu.

    PYTHONPATH=. python3 scripts/probe_pressure.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission)

Program n reads tile n % `tiles` of a buffer, computes, and stores or reads memory of its own, as blocks of attention scores do.
All run freely, so that the buffer is read again at a distance of `tiles` programs. FILE gets one JSON object.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import triton
import triton.language as tl

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from probe_runs import Notes, Probe, main

MIB = 1 << 20
TILE, ELEMENT_BYTES = 2048, 4
KEPT_MIB = 1, 2, 4, 8, 16, 20
RATIOS = 0, 1, 2, 4, 8
STEPS = 0, 400
WARPS = 4, 16
SWEEPS, MOST_BYTES = 24, 2 << 30
COUNTERS = {
    "hbm_read_bytes": Metric("dram__bytes_read.sum", "byte"),
    "hbm_write_bytes": Metric("dram__bytes_write.sum", "byte"),
    "time_ns": Metric("gpu__time_duration.sum", "time"),
}


@triton.jit
def beside(x, y, tiles, steps, RATIO: tl.constexpr, STORES: tl.constexpr, TILE: tl.constexpr):
    """Read a tile of `x`, and store or read `RATIO` tiles of `y` of its own."""
    program = tl.program_id(0)
    lanes = tl.arange(0, TILE)
    found = tl.load(x + (program % tiles) * TILE + lanes, cache_modifier=".cg")
    for _ in range(steps):
        found = found * 1.0001 + 1.0
    at = y + program.to(tl.int64) * (RATIO * TILE) + lanes
    for number in tl.static_range(RATIO):
        if STORES:
            tl.store(at + number * TILE, found)
        else:
            found += tl.load(at + number * TILE, cache_modifier=".cg")
    if not STORES or RATIO == 0:
        tl.store(x + (program % tiles) * TILE + lanes, found, mask=found < -1.0)


def swept(
    kept: int = 4, ratio: int = 4, stores: bool = True, programs: int = 12288, warps: int = 16, device: str = "cuda"
) -> Callable[[], object]:
    """Return a call that sweeps `kept` MiB, as a target of `simulate`."""
    x, y = (torch.empty(size, device=device) for size in (kept * MIB // ELEMENT_BYTES, programs * max(1, ratio) * TILE))
    return _call(x, y, kept, ratio, stores, 0, warps, programs)


def _call(
    x: torch.Tensor, y: torch.Tensor, kept: int, ratio: int, stores: bool, steps: int, warps: int, programs: int
) -> Callable[[], object]:
    tiles = kept * MIB // (TILE * ELEMENT_BYTES)
    return lambda: beside[(programs,)](x, y, tiles, steps, RATIO=ratio, STORES=stores, TILE=TILE, num_warps=warps)


def probe(x: torch.Tensor, y: torch.Tensor, kept: int, ratio: int, stores: bool, steps: int, warps: int) -> Probe:
    """Return a launch that sweeps `kept` MiB.

    `ratio` times as many bytes are stored or read beside.
    """
    sweep = kept * MIB // (TILE * ELEMENT_BYTES)
    programs = min(SWEEPS * sweep, MOST_BYTES // (max(1, ratio) * TILE * ELEMENT_BYTES))
    what: Notes = {"kept_bytes": kept * MIB, "ratio": ratio, "stores": stores, "steps": steps, "warps": warps}
    return Probe({**what, "programs": programs}, _call(x, y, kept, ratio, stores, steps, warps, programs))


def plan(small: bool) -> Sequence[Probe]:
    """Return every launch with its description."""
    x = torch.zeros(KEPT_MIB[-1] * MIB // ELEMENT_BYTES, device="cuda")
    y = torch.zeros(MOST_BYTES // ELEMENT_BYTES, device="cuda")
    found = [
        probe(x, y, kept, ratio, stores, steps, warps)
        for kept in KEPT_MIB
        for ratio in RATIOS
        for stores in ((True, False) if ratio else (True,))
        for steps in STEPS
        for warps in WARPS
    ]
    return found[:3] if small else found


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
