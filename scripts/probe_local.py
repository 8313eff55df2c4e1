"""Count which loads of local memory hit in the L1, under ncu.

Local memory holds spilled registers. Warps store words there, read other memory that no other warp reads, and load the words.

    PYTHONPATH=. python3 scripts/probe_local.py FILE [--small]     (a CUDA GPU, ncu with counters; two minutes)

FILE gets one JSON object.
"""

# pyright: basic
from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from driver_kernels import Kernel, assembled
from probe_runs import Probe, main

SMS, KIB, UNROLLED = 132, 1024, 8
SECTORS = "l1tex__t_sectors_pipe_lsu_mem"
COUNTERS = {
    "config_bytes": Metric("launch__shared_mem_config_size", "byte"),
    "local_loads": Metric(f"{SECTORS}_local_op_ld.sum", "count"),
    "local_hits": Metric(f"{SECTORS}_local_op_ld_lookup_hit.sum", "count"),
    "global_loads": Metric(f"{SECTORS}_global_op_ld.sum", "count"),
    "global_hits": Metric(f"{SECTORS}_global_op_ld_lookup_hit.sum", "count"),
}


class Access(NamedTuple):
    """Instructions that together read or write `bytes` of adjacent memory.

    Each thread is at `lane_bytes` from the next one.
    """

    instructions: tuple[str, ...]
    lane_bytes: int
    bytes: int


OWN_LINE_BYTES = 128
LOADS_OF_GLOBAL = {"G": "ld.global.u32", "E": "ld.global.L1::evict_first.u32"}
FOUR = "{%a@, %b@, %c@, %d@}"
GLOBAL = {
    "u32": Access(("ld.global.u32 %a@, [%at+#];",), 4, 128),
    "v4": Access((f"ld.global.v4.u32 {FOUR}, [%at+#];",), 16, 512),
    "u16": Access(("ld.global.u16 %h@, [%at+#];",), 2, 64),
    "u16 of 16 bytes": Access(tuple(f"ld.global.u16 %h@, [%at+#+{2 * one}];" for one in range(8)), 16, 512),
    "v4, evict_first": Access((f"ld.global.L1::evict_first.v4.u32 {FOUR}, [%at+#];",), 16, 512),
    "stored v4": Access(("st.global.v4.u32 [%at+#], {%sum, %sum, %sum, %sum};",), 16, 512),
}
OPCODE, LOAD_OF_LOCAL, LAST_USE = 0xFFFF, 0x7983, 1 << 21
"""Of the first and third word of an instruction for sm_90 (`nvdisasm -hex`)."""
PHASES = ("S T R", "S T L", "S S T R", "S T R T R")
"""Order of stores (S), other memory (T), loads (R), last loads (L)."""
LATER_USES = ("S R T R", "S L S T R", "S L S T L", "S S L T R", "S L T R", "G G T G", "G E T G", "G G E T G")
"""The same, with global memory instead of local memory in G and E.

Loads of E ask for `evict_first`.
"""
SHAPES = ((4, 2), (16, 1))
"""Warps of a program, programs of an SM."""
LOCAL_KIB, OTHER_KIB = (26, 96), (128, 272, 544)
"""Of all programs of an SM."""
ALONE = ("S R", "S L", "S R R")
ALONE_SHAPES = ((4, 1), (8, 1), (8, 2), (16, 1), (32, 1), (4, 8))
ALONE_KIB = (64, 96, 128, 160, 192, 224, 256, 320)
"""The same without other memory."""


def spilling(words: int, phases: str, other: Access, other_bytes: int) -> str:
    """Return the PTX of a kernel whose warps go through the phases.

    Each stores and loads so many `words`, and reads `other_bytes`.
    """
    text = [_phase(number, kind, words, other, other_bytes) for number, kind in enumerate(phases.split())]
    total = phases.split().count("T") * other_bytes + OWN_LINE_BYTES * words
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry spilling(.param .u64 pointer) {{
.local .align 16 .b8 stack[{4 * words}];
.reg .u16 %h<{8 * UNROLLED}>;
.reg .u32 %a<{8 * UNROLLED}>, %b<{8 * UNROLLED}>, %c<{8 * UNROLLED}>, %d<{8 * UNROLLED}>, %word<{words}>;
.reg .u32 %sum, %zero, %thread, %threads, %program, %left, %other;
.reg .u64 %data, %at, %begin, %own, %offset, %local;
.reg .pred %more;
ld.param.u64 %data, [pointer];
mov.u32 %thread, %tid.x;
mov.u32 %threads, %ntid.x;
mov.u32 %program, %ctaid.x;
mad.lo.u32 %sum, %program, %threads, %thread;
shr.u32 %other, %sum, 5;
mul.wide.u32 %offset, %other, {total};
add.u64 %own, %data, %offset;
add.u64 %begin, %own, {OWN_LINE_BYTES * words};
and.b32 %other, %thread, 31;
mul.wide.u32 %offset, %other, 4;
add.u64 %own, %own, %offset;
mul.wide.u32 %offset, %other, {other.lane_bytes};
add.u64 %begin, %begin, %offset;
{"".join(text)}
st.global.u32 [%data+4], %sum;
done: ret;
}}
"""


def _phase(number: int, kind: str, words: int, other: Access, other_bytes: int) -> str:
    """Return the PTX of a phase.

    What it accesses depends on a zero in memory, and a branch is before it, so that the compiler neither moves nor forwards
    words.
    """
    zero = (
        "setp.eq.u32 %more, %sum, 3735928559;\n@%more bra done;\nbar.sync 0;\n"
        "ld.volatile.global.u32 %zero, [%data];\nadd.u32 %sum, %sum, %zero;\ncvt.u64.u32 %offset, %zero;\n"
    )
    if kind == "T":
        return zero + _others(number, other, other_bytes)
    sums = "".join(f"xor.b32 %sum, %sum, %word{one};\n" for one in range(words))
    if kind in LOADS_OF_GLOBAL:
        how = LOADS_OF_GLOBAL[kind]
        own = "add.u64 %at, %own, %offset;\n"
        return zero + own + "".join(f"{how} %word{one}, [%at+{OWN_LINE_BYTES * one}];\n" for one in range(words)) + sums
    stack = "mov.u64 %local, stack;\nadd.u64 %local, %local, %offset;\n"
    if kind == "S":
        return zero + stack + "".join(f"st.local.u32 [%local+{4 * one}], %sum;\n" for one in range(words))
    loads = "".join(f"ld.local.u32 %word{one}, [%local+{4 * one}];\n" for one in range(words))
    return zero + stack + loads + sums


def _others(number: int, other: Access, other_bytes: int) -> str:
    """Return a loop over memory that only this warp accesses."""
    accesses, values = list[str](), list[str]()
    for turn in range(UNROLLED):
        for at, one in enumerate(other.instructions):
            register = turn * len(other.instructions) + at
            accesses.append(one.replace("@", str(register)).replace("#", str(turn * other.bytes)))
            values += [f"%{each}{register}" for each in "abcd" if f"%{each}@" in one]
            if "%h@" in one:
                values.append(f"%a{register}")
                accesses.append(f"cvt.u32.u16 %a{register}, %h{register};")
    loop = [*accesses, *(f"xor.b32 %sum, %sum, {value};" for value in values)]
    turns, step = other_bytes // (UNROLLED * other.bytes), UNROLLED * other.bytes
    return "\n".join([
        "add.u64 %at, %begin, %offset;", f"add.u64 %begin, %begin, {other_bytes};", f"mov.u32 %left, {turns};",
        f"more{number}:", '.pragma "nounroll";', *loop, f"add.u64 %at, %at, {step};", "sub.u32 %left, %left, 1;",
        "setp.ne.u32 %more, %left, 0;", f"@%more bra more{number};", "",
    ])  # fmt: skip


def with_last_uses(cubin: bytes, phases: str, words: int) -> bytes:
    """Return machine code whose loads of local memory in phases L are last uses.

    PTX has no way to ask for them.
    """
    code = np.frombuffer(cubin, dtype=np.uint32).copy()
    loads = np.flatnonzero((code & OPCODE == LOAD_OF_LOCAL) & (np.arange(code.size) % 4 == 0))
    kinds = [kind for kind in phases.split() if kind in "RL"]
    if loads.size != len(kinds) * words:
        raise RuntimeError(f"{loads.size} loads of local memory in machine code, {len(kinds) * words} in PTX")
    code[loads[np.repeat(np.array([kind == "L" for kind in kinds], dtype=np.bool_), words)] + 2] |= LAST_USE
    return code.tobytes()


def described(warps: int, programs: int, phases: str, other: str, local_kib: int, other_kib: int) -> dict[str, Any]:
    """Return what a launch is, with words of a thread and bytes that a warp reads."""
    each = warps * programs
    what = {"warps": warps, "programs": programs, "phases": phases, "other": other}
    return what | {"words": local_kib * KIB // 128 // each, "other_bytes": other_kib * KIB // each}


def assemble(what: dict[str, Any]) -> bytes:
    """Return the machine code of a launch."""
    ptx = spilling(what["words"], what["phases"], GLOBAL[what["other"]], what["other_bytes"])
    return with_last_uses(assembled(ptx), what["phases"], what["words"])


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    data = torch.zeros(SMS * (2 * max(OTHER_KIB) + max(ALONE_KIB)) * KIB // 4, dtype=torch.int32, device="cuda")
    each = [described(*shape, *rest) for shape, *rest in product(SHAPES, PHASES, GLOBAL, LOCAL_KIB, OTHER_KIB)]
    each += [described(*shape, *rest) for shape, *rest in product(SHAPES, LATER_USES, ("v4",), LOCAL_KIB, OTHER_KIB)]
    each += [described(*shape, *rest) for shape, *rest in product(ALONE_SHAPES, ALONE, ("v4",), ALONE_KIB, (0,))]
    each = each[:: len(each) // 8] if small else each
    with ThreadPoolExecutor() as pool:
        kernels = [Kernel(code, "spilling") for code in pool.map(assemble, each)]
    return [
        Probe(what, partial(kernel.launch, data, SMS * what["programs"], what["warps"]))
        for what, kernel in zip(each, kernels, strict=True)
    ]


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
