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

import argparse
import csv
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from ioaware.environment import gpu_environment, software_environment
from ioaware.measurement.counters.ncu import command, find_ncu
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.measurement.subprocesses import run_process

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
RANGE = re.compile(r":ioaware:(\d+):")
METRICS = {
    "hbm_read_bytes": "dram__bytes_read.sum",
    "hbm_write_bytes": "dram__bytes_write.sum",
    "requested_read_bytes": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "requested_write_bytes": "l1tex__m_l1tex2xbar_write_bytes.sum",
    "registers": "launch__registers_per_thread",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
    "time_ns": "gpu__time_duration.sum",
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
def sweep(a, x, out, marks, sm, steps, growth, ROWS: tl.constexpr, COLS: tl.constexpr, WIDTH: tl.constexpr,
          MARKS: tl.constexpr):  # fmt: skip
    """Multiply a tile of its own by tiles of `x`; note the time at each eighth.

    Program p takes `steps` + p * `growth` tiles of x.
    """
    program = tl.program_id(0)
    place = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(sm + program, place)
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


def beside_plan(small: bool) -> list[tuple[dict[str, Any], Callable[[], object]]]:
    """Return launches that use memory once between two uses of a tile."""
    tile, largest = BLOCK * 4, BETWEEN_MIB[-1] * MIB * ROUNDS
    y, z = (torch.zeros(largest // 4 + 64 * BLOCK, device="cuda") for _ in range(2))
    out = torch.zeros(largest // tile, device="cuda")
    x = torch.zeros(BETWEEN_MIB[-1] * MIB // 4 // 4, device="cuda")
    found: list[tuple[dict[str, Any], Callable[[], object]]] = []
    for reads, writes in ((4, 0), (0, 4), (2, 2)):
        for between in BETWEEN_MIB[: 1 if small else None]:
            tiles = between * MIB // (4 * tile)
            what = {"probe": "beside", "tiles": tiles, "reads": reads, "writes": writes, "tile_bytes": tile, "rounds": ROUNDS}
            shape = {"READS": reads, "WRITES": writes, "BLOCK": BLOCK}
            found.append((what, partial(beside[(tiles * ROUNDS,)], x, y, z, out, tiles, **shape)))
    return found


def sweep_plan(small: bool) -> list[tuple[dict[str, Any], Callable[[], object], Callable[[], dict[str, Any]]]]:
    """Return sweeping launches, each with a function that returns its notes."""
    found: list[tuple[dict[str, Any], Callable[[], object], Callable[[], dict[str, Any]]]] = []
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
            found.append((what, launch, partial(noted, marks, sm)))
    return found


def noted(marks: torch.Tensor, sm: torch.Tensor) -> dict[str, Any]:
    """Return the SM of every program and its times in nanoseconds after the first."""
    times = marks - marks.min()
    return {"sm": sm.tolist(), "marks": times.reshape(-1, MARKS + 1).tolist()}


def work(folder: Path, small: bool) -> None:
    """Make the launches, to be run under ncu; write what each is, and its notes."""
    sweeps = sweep_plan(small)
    launches = [*beside_plan(small), *((what, run) for what, run, _ in sweeps)]
    for _, run in launches:
        run()
    torch.cuda.synchronize()
    runtime: Any = torch.cuda.cudart()
    (folder / "plan.json").write_text(json.dumps([what for what, _ in launches]))
    runtime.cudaProfilerStart()
    for number, (_, run) in enumerate(launches):
        torch.cuda.nvtx.range_push(f"ioaware:{number}")
        run()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    runtime.cudaProfilerStop()
    (folder / "noted.json").write_text(json.dumps([result() for *_, result in sweeps]))


def counted(folder: Path, small: bool) -> list[dict[str, Any]]:
    """Run the launches under ncu; return every kernel with counters and notes."""
    log, ncu = folder / "ncu.csv", find_ncu()
    program = [sys.executable, __file__, str(folder), "--work", *(["--small"] if small else [])]
    done = run_process(command(ncu, list(METRICS.values()), log, program), timeout_s=300.0)
    text = log.read_text() if log.exists() else ""
    start = text.find('"ID"')
    if start < 0:
        raise RuntimeError(f"ncu {done.how}\n{text[-2000:]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    rows = [row for row in csv.DictReader(io.StringIO(text[start:])) if (row.get("ID") or "").isdigit()]
    what = json.loads((folder / "plan.json").read_text())
    programs = iter(json.loads((folder / "noted.json").read_text()))
    found: list[dict[str, Any]] = []
    for row in rows:
        ranges = [cell for name, cell in row.items() if name and "Push/Pop_Range" in name and cell and "ioaware:" in cell]
        described = what[int(RANGE.findall(ranges[0])[-1])]
        values = {name: float(row[metric].replace(",", "")) for name, metric in METRICS.items() if row.get(metric)}
        more = next(programs) if described["probe"] == "sweep" else {}
        found.append({**described, **values, **more})
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--small", action="store_true", help="the first of each kind, to try the script")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        work(given.file, given.small)
        return 0
    with tempfile.TemporaryDirectory(prefix="ioaware-") as name:
        launches = counted(Path(name), given.small)
        environment = {**gpu_environment(open_gpu(load_nvml()).limits), **software_environment()}
    given.file.write_text(json.dumps({"schema": 1, "launches": launches, "environment": environment}) + "\n")
    print(f"{len(launches)} launches counted")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
