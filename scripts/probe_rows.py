"""Measure rows that programs read several times, under ncu.

They show what an L1 keeps, and how programs of an SM drift apart.

    PYTHONPATH=. python3 scripts/probe_rows.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission; about 60 s)

FILE gets one JSON object. None of the probes is an attention kernel.

- `rows`: each program reads a row of its own two or four times, in four waves of programs. Requested bytes, against the bytes
  of the rows of an SM, show what its L1 keeps.
- `ages`: programs read a row twice, and store nothing or as much beside the second read. Each notes when it begins, ends the
  first pass, and ends. `ends` are mean times of the first programs of the SMs by their order on the SM, over the mean of all.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from probe_l2 import now, sm_number
from probe_runs import Notes, Probe, main

SMS, WAVES = 132, 4
KIB = 1 << 10
ROWS_KIB = (32, 64, 96, 128, 160, 192, 224, 256, 320)
"""Bytes of the rows of all programs on an SM."""
WARPS = {1: 32, 2: 32, 4: 16, 8: 8, 16: 4}
"""Warps of a program, and how many such programs run on an SM."""
ELEMENT_BYTES, BYTES_OF_A_THREAD = 2, 16
AGES = ((2, 16384, 4096), (4, 16384, 4096), (4, 8192, 8192), (2, 32768, 2048))
"""Warps, rows and columns."""
COUNTERS = {
    "hbm_read_bytes": Metric("dram__bytes_read.sum", "byte"),
    "hbm_write_bytes": Metric("dram__bytes_write.sum", "byte"),
    "requested_read_bytes": Metric("l1tex__m_xbar2l1tex_read_bytes.sum", "byte"),
    "requested_write_bytes": Metric("l1tex__m_l1tex2xbar_write_bytes.sum", "byte"),
    "config_bytes": Metric("launch__shared_mem_config_size", "byte"),
    "registers": Metric("launch__registers_per_thread", "count"),
    "time_ns": Metric("gpu__time_duration.sum", "time"),
}


@triton.jit
def rows(x, y, out, marks, sm, cols, CHUNK: tl.constexpr, PASSES: tl.constexpr, STORE: tl.constexpr, MARK: tl.constexpr):
    """Read a row PASSES times, in chunks, and store it in the last pass where STORE."""
    row = tl.program_id(0).to(tl.int64)
    if MARK:
        tl.store(sm + row, sm_number())
        tl.store(marks + row, now())
    at = tl.arange(0, CHUNK)
    found = tl.full([], 0.0, tl.float32)
    for number in tl.static_range(PASSES):
        for start in range(0, cols, CHUNK):
            value = tl.load(x + row * cols + start + at).to(tl.float32)
            found = tl.maximum(found, tl.max(value * (1.0 + found), 0))
            if STORE and number == PASSES - 1:
                tl.store(y + row * cols + start + at, (value + found).to(y.dtype.element_ty))
        tl.debug_barrier()
        if MARK:
            tl.store(marks + (number + 1) * tl.num_programs(0) + row, now())
    tl.store(out + row, found)


def rows_plan(small: bool) -> list[Probe]:
    """Return launches that read rows of so many bytes again."""
    found: list[Probe] = []
    most = SMS * WAVES * max(ROWS_KIB) * KIB // ELEMENT_BYTES
    x, y = (torch.randn(most, device="cuda", dtype=torch.float16) for _ in range(2))
    out = torch.zeros(SMS * WAVES * max(WARPS.values()), device="cuda")
    for warps, programs in WARPS.items():
        chunk = warps * 32 * BYTES_OF_A_THREAD // ELEMENT_BYTES
        for size in ROWS_KIB:
            cols = max(1, size * KIB // programs // ELEMENT_BYTES // chunk) * chunk
            count = SMS * programs * WAVES
            for passes, store in ((2, False), (4, False), (2, True)):
                what = {"probe": "rows", "warps": warps, "programs": programs, "row_bytes": cols * ELEMENT_BYTES, "rows": count}
                what |= {"passes": passes, "stores": store, "chunk_bytes": chunk * ELEMENT_BYTES}
                options = {"CHUNK": chunk, "PASSES": passes, "STORE": store, "MARK": False, "num_warps": warps}
                found.append(Probe(what, partial(rows[(count,)], x, y, out, out, out, cols, **options)))
    return found[:3] if small else found


def ages_plan(small: bool) -> list[Probe]:
    """Return launches whose programs note their times."""
    found: list[Probe] = []
    for warps, count, cols in AGES[: 1 if small else None]:
        for store in (False, True):
            x = torch.randn(count * cols, device="cuda", dtype=torch.float16)
            y, out = torch.empty_like(x), torch.zeros(count, device="cuda")
            marks = torch.zeros(3 * count, dtype=torch.int64, device="cuda")
            sm = torch.zeros(count, dtype=torch.int32, device="cuda")
            what = {"probe": "ages", "warps": warps, "rows": count, "row_bytes": cols * ELEMENT_BYTES, "stores": store}
            options = {"CHUNK": 1024, "PASSES": 2, "STORE": store, "MARK": True, "num_warps": warps}
            run = partial(rows[(count,)], x, y, out, marks, sm, cols, **options)
            found.append(Probe(what, run, partial(noted, marks, sm)))
    return found


def noted(marks: torch.Tensor, sm: torch.Tensor) -> Notes:
    """Return what the programs of a launch noted, in shares of a program's mean time."""
    start, middle, end = marks.cpu().numpy().reshape(3, -1).astype(np.float64)
    place, mean = sm.cpu().numpy(), float((end - start).mean())
    running = int(((start <= start.min() + 0.3 * np.ptp(end)) & (end > start.min() + 0.3 * np.ptp(end))).sum())
    first = [np.flatnonzero(place[:running] == number) for number in range(SMS)]
    ends = [
        float(np.mean([(end - start)[one[age]] for one in first if one.size > age])) / mean
        for age in range(max(one.size for one in first))
    ]
    second = slice(running, 2 * running)
    return {
        "running": running,
        "program_ns": round(mean),
        "first_pass": round(float(((middle - start) / (end - start)).mean()), 4),
        "ends": [round(one, 4) for one in ends],
        "starts_deviation": [round(float(start[one].std()) / mean, 4) for one in (slice(0, running), second)],
    }


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    return [*rows_plan(small), *ages_plan(small)]


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
