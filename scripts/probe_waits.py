"""Count what loads request again after a wait, under ncu.

The threads of a program read memory of their own by several instructions. The last ones touch sectors that earlier ones
brought, and wait until the first load is done.

    PYTHONPATH=. python3 scripts/probe_waits.py FILE [--small]     (a CUDA GPU, ncu with counters; one minute)

FILE gets one JSON object.
"""

# pyright: basic
from __future__ import annotations

import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ioaware.measurement.counters.ncu_csv import Metric

sys.path.insert(0, str(Path(__file__).parent))
from driver_kernels import Kernel, assembled
from probe_runs import Probe, main

SMS, LANES, WARPS_OF_AN_SM, WAVES = 132, 32, 64, 8
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"
COUNTERS = {
    "config_bytes": Metric("launch__shared_mem_config_size", "byte"),
    "registers": Metric("launch__registers_per_thread", "count"),
    "requested_read_bytes": Metric("l1tex__m_xbar2l1tex_read_bytes.sum", "byte"),
    "loads": Metric(f"{SECTORS}.sum", "count"),
    "hits": Metric(f"{SECTORS}_lookup_hit.sum", "count"),
    "time_ns": Metric("gpu__time_duration.sum", "time"),
}


class Touch(NamedTuple):
    """Load of `bytes` by each thread. `times` of them read adjacent memory."""

    load: str
    bytes: int
    times: int

    @property
    def adjacent_bytes(self) -> int:
        """Bytes that a thread reads side by side."""
        return self.bytes * self.times


FOUR = "{%a@, %b@, %c@, %d@}"
TOUCHES = {
    "v4": Touch(f"ld.global.v4.u32 {FOUR}", 16, 2),
    "u32": Touch("ld.global.u32 %a@", 4, 4),
    "u16": Touch("ld.global.u16 %h@", 2, 8),
}
PIECES = (1, 2, 4, 7)
"""Pieces of adjacent memory that a thread reads."""
WARPS = (4, 16)
"""Warps of a program."""
LATE = ("all", "last")
"""Pieces of which the last instruction comes after the wait."""
MAGIC = 48879
"""Number of 16 bits that no sum of zeros is, as the compiler cannot know."""
STORES = (False, True)
"""Whether a program stores as much as it reads."""


def waiting(touch: Touch, pieces: int, late: str, *, stores: bool) -> str:
    """Return the PTX of a kernel whose last loads wait for the first one.

    Their addresses depend on a bit of it that is zero. A barrier and a branch are before them, so that the compiler moves none.
    """
    early, after = list[str](), list[str]()
    for piece, turn in product(range(pieces), range(touch.times)):
        is_late = turn == touch.times - 1 and (late == "all" or piece == pieces - 1)
        number = str(piece * touch.times + turn)
        code = f"{touch.load}, [%at{piece}+{touch.bytes * turn}];\n".replace("@", number)
        (after if is_late else early).append(code)
    loads = pieces * touch.times
    found = [f"cvt.u32.u16 %a{one}, %h{one};\n" for one in range(loads)] if "%h" in touch.load else []
    names = "abcd" if "%d" in touch.load else "a"
    sums = [f"xor.b32 %sum, %sum, %{name}{one};\n" for one in range(loads) for name in names]
    piece_at = [f"mad.wide.u32 %at{one}, %threads, {one * touch.adjacent_bytes}, %begin;\n" for one in range(pieces)]
    moved = [f"add.u64 %at{one}, %at{one}, %zero;\n" for one in range(pieces)]
    first = ["cvt.u32.u16 %a0, %h0;\n"] if "%h" in touch.load else []
    words = product(range(pieces), range(0, touch.adjacent_bytes, 4))
    written = [f"st.global.u32 [%at{piece}+{offset}], %sum;\n" for piece, offset in words]
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry waiting(.param .u64 pointer) {{
.reg .u16 %h<{loads}>;
.reg .u32 %a<{loads}>, %b<{loads}>, %c<{loads}>, %d<{loads}>;
.reg .u32 %sum, %thread, %threads, %program, %bit;
.reg .u64 %begin, %zero, %at<{pieces}>, %offset;
.reg .pred %never;
ld.param.u64 %begin, [pointer];
mov.u32 %thread, %tid.x;
mov.u32 %threads, %ntid.x;
mov.u32 %program, %ctaid.x;
mul.lo.u32 %bit, %program, %threads;
mul.wide.u32 %offset, %bit, {pieces * touch.adjacent_bytes};
add.u64 %begin, %begin, %offset;
mul.wide.u32 %offset, %thread, {touch.adjacent_bytes};
add.u64 %begin, %begin, %offset;
mov.u32 %sum, 0;
{"".join(piece_at)}{"".join(early)}bar.sync 0;
{"".join(first)}setp.eq.u32 %never, %a0, {MAGIC};
@%never bra done;
shr.u32 %bit, %a0, 31;
cvt.u64.u32 %zero, %bit;
{"".join(moved)}{"".join(after)}{"".join(found)}{"".join(sums)}
{"".join(written) if stores else ""}
setp.eq.u32 %never, %sum, {MAGIC};
@%never st.global.u32 [%begin], %sum;
done: ret;
}}
"""


def described(touch: str, pieces: int, warps: int, late: str, stores: bool) -> dict[str, Any]:
    """Return what a launch is, with the bytes that it reads once."""
    programs = SMS * WARPS_OF_AN_SM // warps * WAVES
    what = {"load": touch, "pieces": pieces, "warps": warps, "late": late, "stores": stores, "programs": programs}
    return what | {"bytes": programs * warps * LANES * pieces * TOUCHES[touch].adjacent_bytes}


def plan(small: bool) -> list[Probe]:
    """Return every launch with its description."""
    each = [described(*one) for one in product(TOUCHES, PIECES, WARPS, LATE, STORES)]
    each = each[:: len(each) // 8] if small else each
    data = torch.zeros(max(one["bytes"] for one in each) // 4, dtype=torch.int32, device="cuda")
    found: list[Probe] = []
    for one in each:
        code = assembled(waiting(TOUCHES[one["load"]], one["pieces"], one["late"], stores=one["stores"]))
        found.append(Probe(one, partial(Kernel(code, "waiting").launch, data, one["programs"], one["warps"])))
    return found


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
