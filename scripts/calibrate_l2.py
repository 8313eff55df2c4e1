"""Measure usable L2 capacity, replacement and dirty lines of a GPU.

Copies and reads run under ncu, and one JSON is printed.

    python3 scripts/calibrate_l2.py > l2.json       (a CUDA GPU, Triton, ncu with counter permission; about 40 s)

Five plain kernels, none of them attention, are profiled by their DRAM bytes:
shared   every program reads the whole buffer repeatedly: misses after the first pass against its size
private  every program reads its own slice repeatedly: data read by one partition's SMs only
fill     stores only: bytes left dirty when a kernel ends
mixed    a copy, and a sum of two buffers: bytes left dirty beside reads
drift    equal programs record their start and end: drift between programs of one wave
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from typing import Any

import torch
import triton
import triton.language as tl

MIB = 1 << 20
SIZES_MIB = (8, 16, 20, 24, 26, 28, 30, 32, 34, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 96)
PASSES = 4
BLOCK = 4096
"""Elements of 4 bytes. Loads pass the L1 by (.cg)."""
METRICS = "dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum"


def plan() -> list[tuple[str, int]]:
    """The launches, in order: kernel and MiB."""
    found = [(kind, size) for kind in ("shared", "private") for size in SIZES_MIB]
    return (
        found
        + [("fill", size) for size in (8, 16, 32, 64, 128)]
        + [("copy", size) for size in (16, 32, 64, 128)]
        + [("add", size) for size in (16, 32, 64, 128)]
    )


@triton.jit
def shared(x, out, blocks, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(PASSES):
        for block in range(blocks):
            total += tl.load(x + block * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def private(x, out, blocks, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * blocks
    for _ in range(PASSES):
        for block in range(blocks):
            total += tl.load(x + (first + block) * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))


@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def add(x, y, z, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at) + tl.load(y + at))


@triton.jit
def timed(x, out, begun, ended, blocks, BLOCK: tl.constexpr):
    start = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    total = tl.zeros((BLOCK,), tl.float32)
    for block in range(blocks):
        total += tl.load(x + block * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)
    tl.debug_barrier()
    end = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    tl.store(begun + tl.program_id(0), start)
    tl.store(ended + tl.program_id(0), end)


def work() -> None:
    """Make the launches; run under ncu."""
    block, sms = BLOCK, torch.cuda.get_device_properties(0).multi_processor_count
    x, y, z = (torch.zeros(160 * MIB // 4, device="cuda") for _ in range(3))
    for kind, size in plan():
        count = size * MIB // 4 // block
        if kind == "shared":
            shared[(sms,)](x, z, count, PASSES=PASSES, BLOCK=block)
        elif kind == "private":
            private[(sms,)](x, z, count // sms, PASSES=PASSES, BLOCK=block)
        elif kind == "fill":
            fill[(count,)](x, BLOCK=block)
        elif kind == "copy":
            copy[(count,)](x, y, BLOCK=block)
        else:
            add[(count,)](x, y, z, BLOCK=block)
    torch.cuda.synchronize()


def _slices(size: int) -> int:
    """Return the bytes of equal slices within so many MiB, one for each SM.

    Each slice is of whole blocks.
    """
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    return size * MIB // 4 // BLOCK // sms * sms * BLOCK * 4


def drift() -> dict[str, float]:
    """Run equal programs and return the spread of their ends over their length.

    There are twice as many programs as in one wave.
    """
    block, sms = BLOCK, torch.cuda.get_device_properties(0).multi_processor_count
    x = torch.zeros(16 * MIB // 4, device="cuda")
    out = torch.zeros(8 * sms * block, device="cuda")
    begun, ended = (torch.zeros(8 * sms, dtype=torch.int64, device="cuda") for _ in range(2))
    for _ in range(3):
        timed[(8 * sms,)](x, out, begun, ended, 16 * MIB // 4 // block, BLOCK=block)
    torch.cuda.synchronize()
    lengths = (ended - begun).double()
    return {
        "median_ns": float(lengths.median()),
        "spread_of_lengths": float((lengths.quantile(0.95) - lengths.quantile(0.05)) / lengths.median()),
        "spread_of_starts_first_wave": float((begun[:sms].max() - begun[:sms].min()) / lengths.median()),
        "spread_of_ends_first_wave": float((ended[:sms].max() - ended[:sms].min()) / lengths.median()),
    }


def counted() -> list[dict[str, Any]]:
    """The launches under ncu, caches emptied before each, with their bytes."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    command = [ncu, "--csv", "--page", "raw", "--clock-control", "none", "--cache-control", "all", "--metrics", METRICS]
    command += ["--kernel-name", "regex:^(shared|private|fill|copy|add)$", sys.executable, __file__, "work"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
    lines = done.stdout[done.stdout.index('"ID"') :]
    rows = list(csv.DictReader(io.StringIO(lines)))[1:]  # the first row has the units
    units = next(csv.DictReader(io.StringIO(lines)))
    scale = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    found: list[dict[str, Any]] = []
    for (kind, size), row in zip(plan(), rows, strict=True):
        bytes_ = {
            name: float(row[name].replace(",", "")) * scale[units[name]]
            for name in METRICS.split(",")
            if name.startswith("dram")
        }
        touched = _slices(size) if kind == "private" else size * MIB
        read, written = bytes_["dram__bytes_read.sum"], bytes_["dram__bytes_write.sum"]
        entry: dict[str, Any] = {"kernel": kind, "bytes": touched, "read_bytes": read, "write_bytes": written}
        if kind in ("shared", "private"):
            entry["miss_share_after_first_pass"] = (read / touched - 1) / (PASSES - 1)
        else:
            entry["left_dirty_bytes"] = size * MIB - written
        found.append(entry)
    return found


def main() -> None:
    """Print the JSON."""
    if sys.argv[1:] == ["work"]:
        work()
        return
    properties = torch.cuda.get_device_properties(0)
    said = {"gpu": properties.name, "sms": properties.multi_processor_count, "l2_bytes": properties.L2_cache_size}
    print(json.dumps({**said, "passes": PASSES, "drift": drift(), "launches": counted()}, indent=1))


if __name__ == "__main__":
    main()
