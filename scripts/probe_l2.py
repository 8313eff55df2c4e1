"""Measure what an L2 model needs beside its capacity, under ncu.

    PYTHONPATH=. python3 scripts/probe_l2.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission; about 40 s)

FILE gets one JSON object. None of the probes is an attention kernel.

- `beside`: programs read a buffer in turn, again and again, and between two uses of a tile they read or write memory that is
  used once. Misses against the bytes between show what a byte read or written displaces, and what stays dirty.
- `sweep`: matmul programs stream one buffer, all of the same length or each longer than the one before. Each notes the time at
  eighths of its length and its SM, so that bytes from HBM stand beside how far programs of one wave drift apart.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from probe_runs import Notes, Probe, main

MIB = 1 << 20
BLOCK = 2048
"""Elements of 4 bytes of one tile: 8 KiB."""
ROUNDS = 6
BETWEEN_MIB = (8, 16, 24, 28, 32, 36, 40, 44, 48, 56, 64, 80)
"""Bytes read or written once between two uses of a tile."""
MARKS = 8
SWEPT_MIB = (16, 24, 28, 32, 40, 64)
GROWTH = (1, 2, 4)
"""Tiles by which each program of a growing sweep is longer than the last."""
SHAPES: Sequence[dict[str, int]] = (
    {"ROWS": 64, "COLS": 64, "WIDTH": 64, "num_warps": 4, "num_stages": 3, "programs": 2112},
    {"ROWS": 64, "COLS": 64, "WIDTH": 128, "num_warps": 4, "num_stages": 3, "programs": 1056},
    {"ROWS": 128, "COLS": 128, "WIDTH": 128, "num_warps": 8, "num_stages": 4, "programs": 528},
)
"""Tiles of the sweeping matmul, with different numbers of programs on an SM."""
COUNTERS = {
    "hbm_read_bytes": Metric("dram__bytes_read.sum", "byte"),
    "hbm_write_bytes": Metric("dram__bytes_write.sum", "byte"),
    "requested_read_bytes": Metric("l1tex__m_xbar2l1tex_read_bytes.sum", "byte"),
    "requested_write_bytes": Metric("l1tex__m_l1tex2xbar_write_bytes.sum", "byte"),
    "registers": Metric("launch__registers_per_thread", "count"),
    "dynamic_shared_bytes": Metric("launch__shared_mem_per_block_dynamic", "byte"),
    "time_ns": Metric("gpu__time_duration.sum", "time"),
}


@triton.jit
def beside(x, y, z, out, tiles, READS: tl.constexpr, WRITES: tl.constexpr, BLOCK: tl.constexpr):
    """Read a shared tile; read and write tiles that no other program touches."""
    program = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    total = tl.load(x + program % tiles * BLOCK + at, cache_modifier=".cg")
    for number in tl.static_range(READS):
        total += tl.load(y + (program * READS + number) * BLOCK + at, cache_modifier=".cg")
    for number in tl.static_range(WRITES):
        tl.store(z + (program * WRITES + number) * BLOCK + at, total)
    if WRITES == 0:
        tl.store(out + program, tl.sum(total))


@triton.jit
def now():
    """Return the GPU's clock in nanoseconds."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def sm_number():
    """Return the number of the SM that runs this."""
    return tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def sweep(a, x, out, marks, sm, steps, growth, ROWS: tl.constexpr, COLS: tl.constexpr, WIDTH: tl.constexpr,
          MARKS: tl.constexpr):  # fmt: skip
    """Multiply a tile of its own by tiles of `x`; note the time at each eighth.

    Program p takes `steps` + p * `growth` tiles of x.
    """
    program = tl.program_id(0)
    tl.store(sm + program, sm_number())
    tl.store(marks + program * (MARKS + 1), now())
    own = tl.load(a + program * ROWS * COLS + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :])
    tile = tl.arange(0, COLS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    each = tl.cdiv(steps + program * growth, MARKS)
    for mark in range(MARKS):
        for step in range(mark * each, (mark + 1) * each):
            total = tl.dot(own, tl.load(x + step.to(tl.int64) * COLS * WIDTH + tile), total)
        tl.debug_barrier()
        tl.store(marks + program * (MARKS + 1) + mark + 1, now())
    tl.store(out + program * ROWS * WIDTH + tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], total)


def beside_plan(small: bool) -> list[Probe]:
    """Return launches that use memory once between two uses of a tile."""
    tile, largest = BLOCK * 4, BETWEEN_MIB[-1] * MIB * ROUNDS
    y, z = (torch.zeros(largest // 4 + 64 * BLOCK, device="cuda") for _ in range(2))
    out = torch.zeros(largest // tile, device="cuda")
    x = torch.zeros(BETWEEN_MIB[-1] * MIB // 4 // 4, device="cuda")
    found: list[Probe] = []
    for reads, writes in ((4, 0), (0, 4), (2, 2)):
        for between in BETWEEN_MIB[: 1 if small else None]:
            tiles = between * MIB // (4 * tile)
            what = {"probe": "beside", "tiles": tiles, "reads": reads, "writes": writes, "tile_bytes": tile, "rounds": ROUNDS}
            shape = {"READS": reads, "WRITES": writes, "BLOCK": BLOCK}
            found.append(Probe(what, partial(beside[(tiles * ROUNDS,)], x, y, z, out, tiles, **shape)))
    return found


def sweep_plan(small: bool) -> list[Probe]:
    """Return sweeping launches, each with a function that returns its notes."""
    found: list[Probe] = []
    x = torch.zeros(96 * MIB // 2, device="cuda", dtype=torch.float16)
    for shape in SHAPES[: 1 if small else None]:
        programs = shape["programs"]
        a = torch.zeros(programs * shape["ROWS"] * shape["COLS"], device="cuda", dtype=torch.float16)
        out = torch.zeros(programs * shape["ROWS"] * shape["WIDTH"], device="cuda")
        tile = 2 * shape["COLS"] * shape["WIDTH"]
        options = {name: value for name, value in shape.items() if name != "programs"}
        lengths = [(size * MIB // tile, 0) for size in SWEPT_MIB] + [(0, growth) for growth in GROWTH]
        for steps, growth in lengths[: 1 if small else None]:
            marks = torch.zeros(programs * (MARKS + 1), dtype=torch.int64, device="cuda")
            sm = torch.zeros(programs, dtype=torch.int32, device="cuda")
            launch = partial(sweep[(programs,)], a, x, out, marks, sm, steps, growth, MARKS=MARKS, **options)
            what = {"probe": "sweep", "tile_bytes": tile, "steps": steps, "growth": growth, **shape}
            found.append(Probe(what, launch, partial(noted, marks, sm)))
    return found


def noted(marks: torch.Tensor, sm: torch.Tensor) -> Notes:
    """Return the SM of every program and its times in nanoseconds after the first."""
    times = marks - marks.min()
    return {"sm": sm.tolist(), "marks": times.reshape(-1, MARKS + 1).tolist()}


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    return [*beside_plan(small), *sweep_plan(small)]


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
