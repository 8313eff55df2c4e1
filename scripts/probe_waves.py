"""Measure what programs of one wave do to each other in the L2, under ncu.

    PYTHONPATH=. python3 scripts/probe_waves.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission; about 40 s)

FILE gets one JSON object. None of the probes is an attention kernel.

- `again`: as many programs as fit read rows of their own twice, with `.cg`, and store nothing, elsewhere, or in place between
  two reads. Misses of the second read against the bytes in flight show what reads and stores of one program displace.
- `busy`: matmul programs stream one buffer and compute `exps` exponentials per element and step. Each notes the time at eighths
  of its length and its SM. It shows whether programs of one SM drift apart where instructions, not memory, decide the time.
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

sys.path.insert(0, str(Path(__file__).parent))
from probe_l2 import COUNTERS, MARKS, MIB, noted, now, sm_number
from probe_runs import Probe, main

SMS = 132
CHUNK = 1024
"""Elements of 4 bytes that a program reads at once: 4 KiB."""
ROUNDS = 4
PER_SM = (8, 16)
IN_FLIGHT_MIB = (6, 12, 16, 20, 24, 28, 32, 36, 40, 48, 64)
"""Bytes of the rows that programs read at one time."""
STORES = ("none", "elsewhere", "in place")
SWEPT_MIB = (32, 64)
BUSY: Sequence[dict[str, int]] = (
    {"EXPS": 0, "ROWS": 64, "COLS": 64, "WIDTH": 128, "num_warps": 4, "num_stages": 3, "programs": 2112},
    {"EXPS": 1, "ROWS": 64, "COLS": 64, "WIDTH": 128, "num_warps": 4, "num_stages": 3, "programs": 2112},
    {"EXPS": 2, "ROWS": 64, "COLS": 64, "WIDTH": 128, "num_warps": 4, "num_stages": 3, "programs": 2112},
    {"EXPS": 2, "ROWS": 64, "COLS": 64, "WIDTH": 128, "num_warps": 4, "num_stages": 6, "programs": 1056},
    {"EXPS": 2, "ROWS": 128, "COLS": 64, "WIDTH": 128, "num_warps": 4, "num_stages": 3, "programs": 1056},
)
"""Sweeps with different numbers of programs on an SM and of exponentials."""


@triton.jit
def again(x, y, out, rows, chunks, STORE: tl.constexpr, CHUNK: tl.constexpr):
    """Read rows of chunks twice; program p takes rows p, p + P, p + 2 P."""
    at = tl.arange(0, CHUNK)
    total = tl.zeros((CHUNK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        start = row.to(tl.int64) * chunks * CHUNK
        for chunk in range(chunks):
            total += tl.load(x + start + chunk * CHUNK + at, cache_modifier=".cg")
        tl.debug_barrier()
        for chunk in range(chunks):
            value = tl.load(x + start + chunk * CHUNK + at, cache_modifier=".cg")
            total += value
            if STORE == 1:
                tl.store(y + start + chunk * CHUNK + at, value)
            if STORE == 2:
                tl.store(x + start + chunk * CHUNK + at, value + 1.0)
        tl.debug_barrier()
        if STORE == 2:
            for chunk in range(chunks):
                total += tl.load(x + start + chunk * CHUNK + at, cache_modifier=".cg")
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def busy(a, x, out, marks, sm, steps, EXPS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, WIDTH: tl.constexpr,
         MARKS: tl.constexpr):  # fmt: skip
    """Multiply a tile of its own by tiles of `x`, with exponentials; note times."""
    program = tl.program_id(0)
    tl.store(sm + program, sm_number())
    tl.store(marks + program * (MARKS + 1), now())
    own = tl.load(a + program * ROWS * COLS + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :])
    tile = tl.arange(0, COLS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    each = tl.cdiv(steps, MARKS)
    for mark in range(MARKS):
        for step in range(mark * each, (mark + 1) * each):
            found = tl.dot(own, tl.load(x + step.to(tl.int64) * COLS * WIDTH + tile))
            for _ in tl.static_range(EXPS):
                found = tl.exp2(found)
            total += found
        tl.debug_barrier()
        tl.store(marks + program * (MARKS + 1) + mark + 1, now())
    tl.store(out + program * ROWS * WIDTH + tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], total)


def again_plan(small: bool) -> list[Probe]:
    """Return launches that read rows twice."""
    found: list[Probe] = []
    most = IN_FLIGHT_MIB[-1] * MIB * (ROUNDS + 1) // 4
    x, y = (torch.zeros(most, device="cuda") for _ in range(2))
    out = torch.zeros(SMS * PER_SM[-1], device="cuda")
    for per_sm in PER_SM[: 1 if small else None]:
        for store, name in enumerate(STORES):
            for size in IN_FLIGHT_MIB[: 1 if small else None]:
                programs = SMS * per_sm
                chunks = max(1, round(size * MIB / (programs * CHUNK * 4)))
                what = {
                    "probe": "again",
                    "stores": name,
                    "programs": programs,
                    "row_bytes": chunks * CHUNK * 4,
                    "rounds": ROUNDS,
                }
                launch = again[(programs,)]
                run = partial(launch, x, y, out, programs * ROUNDS, chunks, STORE=store, CHUNK=CHUNK)
                found.append(Probe(what, run))
    return found


def busy_plan(small: bool) -> list[Probe]:
    """Return sweeping launches, each with a function that returns its notes."""
    found: list[Probe] = []
    x = torch.zeros(SWEPT_MIB[-1] * MIB // 2, device="cuda", dtype=torch.float16)
    for shape in BUSY[: 1 if small else None]:
        programs = shape["programs"]
        a = torch.zeros(programs * shape["ROWS"] * shape["COLS"], device="cuda", dtype=torch.float16)
        out = torch.zeros(programs * shape["ROWS"] * shape["WIDTH"], device="cuda")
        tile = 2 * shape["COLS"] * shape["WIDTH"]
        options = {name: value for name, value in shape.items() if name != "programs"}
        for size in SWEPT_MIB[: 1 if small else None]:
            steps = size * MIB // tile
            marks = torch.zeros(programs * (MARKS + 1), dtype=torch.int64, device="cuda")
            sm = torch.zeros(programs, dtype=torch.int32, device="cuda")
            launch = partial(busy[(programs,)], a, x, out, marks, sm, steps, MARKS=MARKS, **options)
            what = {"probe": "busy", "tile_bytes": tile, "steps": steps, **shape}
            found.append(Probe(what, launch, partial(noted, marks, sm)))
    return found


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    return [*again_plan(small), *busy_plan(small)]


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
