"""Measure what an L1 model needs, with plain kernels under ncu.

    PYTHONPATH=. python3 scripts/probe_l1.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission; about 40 s)

FILE gets one JSON object. None of the probes is an attention kernel.

- `reread`: each program reads its slice several times, beside so much shared memory. `config_bytes` is what the driver set.
- `tiles`: programs share a tile with their neighbours, and read and write memory of their own.
- `cases`: kernels of this package at small sizes.
- `placed`: the SM of each program of a launch, and its times.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ioaware.measurement.counters.ncu_csv import Metric
from ioaware.targets.target import load_target

sys.path.insert(0, str(Path(__file__).parent))
from probe_l2 import now, sm_number
from probe_runs import Notes, Probe, main

KIB = 1 << 10
BLOCK = 512
"""Elements of 4 bytes that one load takes."""
PASSES = 4
COUNTERS = {
    "requested_read_bytes": Metric("l1tex__m_xbar2l1tex_read_bytes.sum", "byte"),
    "requested_write_bytes": Metric("l1tex__m_l1tex2xbar_write_bytes.sum", "byte"),
    "load_sectors": Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "count"),
    "hit_sectors": Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", "count"),
    "config_bytes": Metric("launch__shared_mem_config_size", "byte"),
    "dynamic_shared_bytes": Metric("launch__shared_mem_per_block_dynamic", "byte"),
    "registers": Metric("launch__registers_per_thread", "count"),
    "threads": Metric("launch__block_size", "count"),
    "time_ns": Metric("gpu__time_duration.sum", "time"),
}
SHARED_KIB = (0, 4, 16, 48, 96)
SLICES_KIB = (24, 56, 88, 120, 152, 184, 216, 240)
TILES = [
    {"own": own, "written": written, "shared_kib": shared, "sharing": sharing}
    for own in (0, 2048)
    for written in (0, 2048, 4096)
    for shared in (0, 16)
    for sharing in (1024,)
] + [{"own": 2048, "written": 4096, "shared_kib": shared, "sharing": 16} for shared in (0, 16)]
"""Elements of 4 bytes that a program reads and writes alone.

`sharing` programs share one tile of 2048.
"""
TILE, TILE_PROGRAMS = 2048, 16384
CASES: Sequence[tuple[str, dict[str, Any]]] = (
    ("standard", {"seq_len": 2048, "heads": 16, "head_dim": 64}),
    ("standard", {"seq_len": 2048, "heads": 16, "head_dim": 128}),
    ("flash1", {"seq_len": 512, "heads": 64, "head_dim": 64}),
    ("flash1", {"seq_len": 1024, "heads": 64, "head_dim": 64}),
    ("flash1", {"seq_len": 1024, "heads": 64, "head_dim": 64, "causal": True}),
    ("flash1", {"seq_len": 512, "heads": 64, "head_dim": 128}),
    ("flash2", {"seq_len": 1024, "heads": 16, "head_dim": 64}),
    ("square_tiling", {"seq_len": 1024, "heads": 16, "head_dim": 128}),
    ("softmax_online", {"rows": 4096, "cols": 16384}),
    ("softmax_bwd", {"rows": 4096, "cols": 4096}),
)


@gluon.jit
def reread(x, out, blocks, PASSES: gl.constexpr, BLOCK: gl.constexpr, BUFFERS: gl.constexpr):
    """Read a slice `PASSES` times beside BUFFERS blocks of shared memory."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.arange(0, BLOCK, layout=layout)
    total = gl.zeros([BLOCK], gl.float32, layout=layout)
    if BUFFERS > 0:
        flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
        memory = gl.allocate_shared_memory(gl.float32, [BUFFERS, BLOCK], flat)
        memory.index(gl.program_id(0) % BUFFERS).store(total)
    first = gl.program_id(0) * blocks
    for _ in range(PASSES):
        for block in range(blocks):
            total += gl.load(x + (first + block) * BLOCK + at)
    if BUFFERS > 0:
        total += memory.index(blocks % BUFFERS).load(layout)
    gl.store(out + gl.program_id(0) * BLOCK + at, total)


@gluon.jit
def tiles(x, y, z, out, OWN: gl.constexpr, WRITTEN: gl.constexpr, TILE: gl.constexpr, SHARING: gl.constexpr,
          BUFFERS: gl.constexpr):  # fmt: skip
    """Read the tile of SHARING programs and memory of this program's own, and store."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    program = gl.program_id(0).to(gl.int64)
    total = gl.load(x + program // SHARING * TILE + gl.arange(0, TILE, layout=layout))
    if OWN > 0:
        total += gl.load(y + program * OWN + gl.arange(0, OWN, layout=layout))
    if BUFFERS > 0:
        flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
        memory = gl.allocate_shared_memory(gl.float32, [BUFFERS, TILE], flat)
        memory.index(0).store(total)
        total = memory.index(gl.program_id(0) % BUFFERS).load(layout)
    if WRITTEN > 0:
        gl.store(z + program * WRITTEN + gl.arange(0, TILE, layout=layout), total)
    if WRITTEN > TILE:
        gl.store(z + program * WRITTEN + TILE + gl.arange(0, TILE, layout=layout), total)
    if WRITTEN == 0:
        gl.store(out + gl.program_id(0), gl.sum(total, 0))


@triton.jit
def placed(x, sums, sm, begun, ended, blocks, BLOCK: tl.constexpr):
    """Read some blocks; store the SM and the first and last nanosecond."""
    start = now()
    total = tl.zeros((BLOCK,), tl.float32)
    for block in range(blocks):
        total += tl.load(x + (tl.program_id(0) % 64 + block) * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    tl.store(sums + tl.program_id(0), tl.sum(total))
    tl.debug_barrier()
    place, end = sm_number(), now()
    tl.store(sm + tl.program_id(0), place)
    tl.store(begun + tl.program_id(0), start)
    tl.store(ended + tl.program_id(0), end)


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    x, y, z = (torch.zeros(size, device="cuda") for size in (sms * 240 * KIB // 4, TILE_PROGRAMS * 2048, TILE_PROGRAMS * 4096))
    out = torch.zeros(TILE_PROGRAMS * BLOCK, device="cuda")
    found: list[Probe] = []
    for shared in SHARED_KIB[: 2 if small else None]:
        for size in SLICES_KIB[: 2 if small else None]:
            shape = {"PASSES": PASSES, "BLOCK": BLOCK, "BUFFERS": shared * KIB // 4 // BLOCK}
            launch = partial(reread[(sms,)], x, out, size * KIB // 4 // BLOCK, **shape)
            found.append(Probe({"probe": "reread", "shared_kib": shared, "slice_kib": size, "programs": sms}, launch))
    for one in TILES[: 2 if small else None]:
        shape = {"OWN": one["own"], "WRITTEN": one["written"], "TILE": TILE, "SHARING": one["sharing"]}
        shape["BUFFERS"] = one["shared_kib"] * KIB // 4 // TILE
        launch = partial(tiles[(TILE_PROGRAMS,)], x, y, z, out, **shape)
        found.append(Probe({"probe": "tiles", "tile": TILE, "programs": TILE_PROGRAMS, **one}, launch))
    for name, params in CASES[: 1 if small else None]:
        target = load_target(name)
        work = target.build(device="cuda", **target.resolve(params))
        found.append(Probe({"probe": "cases", "target": name, "params": params}, work.run))
    return found


def placements() -> Notes:
    """Return where programs of two launches ran."""
    return {"placed": [placement(programs, blocks) for programs, blocks in ((2112, 8), (1056, 64))]}


def placement(programs: int, blocks: int) -> dict[str, Any]:
    """Return the SM of every program, and when it began and ended.

    Times are in nanoseconds after the first.
    """
    x, sums = torch.zeros(256 * 4096, device="cuda"), torch.zeros(programs, device="cuda")
    sm = torch.zeros(programs, dtype=torch.int32, device="cuda")
    begun, ended = (torch.zeros(programs, dtype=torch.int64, device="cuda") for _ in range(2))
    for _ in range(2):
        placed[(programs,)](x, sums, sm, begun, ended, blocks, BLOCK=4096)
    torch.cuda.synchronize()
    first = int(begun.min())
    return {"programs": programs, "sm": sm.tolist(), "begun": (begun - first).tolist(), "ended": (ended - first).tolist()}


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan, placements))
