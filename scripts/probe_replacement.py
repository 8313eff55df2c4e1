"""Measure which lines the L2 replaces, under ncu.

    PYTHONPATH=. python3 scripts/probe_replacement.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission)

One program on each SM reads a buffer, again and again, and all wait for each other before and after it. Between two rounds
they read or store memory that is used once. So nothing depends on how far programs drift apart, and repeated reads that miss,
against the bytes between, show the order of replacement. FILE gets one JSON object.

- `kept`: the buffer is read by the same programs in each round, by others, or several times in a row.
- `rows`: the buffer is a column of a matrix: pieces of rows, as tiles of attention scores are.
- `filled`: nothing lies between; the buffer grows beyond the L2.
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
ELEMENT_BYTES = 4
PIECES = 64
"""Pieces of rows in a tile."""
ROUNDS = 6
KEPT_MIB = 4, 16
BETWEEN_MIB = 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96
COLUMN_MIB = 1, 2, 4, 6, 7, 8, 12, 16, 20, 24, 28
FILLED_MIB = 8, 16, 20, 24, 26, 28, 30, 32, 36, 40, 48
COUNTERS = {
    "hbm_read_bytes": Metric("dram__bytes_read.sum", "byte"),
    "hbm_write_bytes": Metric("dram__bytes_write.sum", "byte"),
    "requested_read_bytes": Metric("l1tex__m_xbar2l1tex_read_bytes.sum", "byte"),
    "requested_write_bytes": Metric("l1tex__m_l1tex2xbar_write_bytes.sum", "byte"),
    "time_ns": Metric("gpu__time_duration.sum", "time"),
}


@triton.jit
def meet(arrived, number):
    """Wait until all programs have come here `number` times."""
    tl.debug_barrier()
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < number * tl.num_programs(0):
        pass
    tl.debug_barrier()


@triton.jit
def rounds(x, y, out, arrived, tiles, between, turn, ROUNDS: tl.constexpr, TIMES: tl.constexpr, STORES: tl.constexpr,
           PIECES: tl.constexpr, WIDTH: tl.constexpr, PITCH: tl.constexpr):  # fmt: skip
    """Read `tiles` of `x` in every round, and `between` tiles of `y` once.

    A tile of `x` is `PIECES` pieces of `WIDTH` elements, `PITCH` apart. Programs take other tiles in each round where `turn`.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    piece = tl.arange(0, PIECES)[:, None].to(tl.int64) * PITCH + tl.arange(0, WIDTH)[None, :]
    plain = tl.arange(0, 2048)
    total = tl.zeros((PIECES, WIDTH), tl.float32)
    rest = tl.zeros((2048,), tl.float32)
    for number in range(ROUNDS):
        for again in range(TIMES):
            for tile in range((program + number * turn) % programs, tiles, programs):
                total += tl.load(x + tile.to(tl.int64) * (PIECES * PITCH) + piece, cache_modifier=".cg")
            meet(arrived, number * (TIMES + 1) + again + 1)
        for tile in range(program, between, programs):
            at = y + (number * between + tile).to(tl.int64) * 2048 + plain
            if STORES:
                tl.store(at, rest)
            else:
                rest += tl.load(at, cache_modifier=".cg")
        meet(arrived, (number + 1) * (TIMES + 1))
    tl.store(out + program, tl.sum(total) + tl.sum(rest))


def probe(what: Notes, x: torch.Tensor, y: torch.Tensor, kept_bytes: int, between_bytes: int, *, turn: int = 0, times: int = 1,
          stores: bool = False, width: int = 32, pitch: int = 32) -> Probe:  # fmt: skip
    """Return a launch that reads `kept_bytes` of `x` again and again.

    They are pieces of `width` elements that lie `pitch` elements apart.
    """
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    tiles = kept_bytes // (PIECES * width * ELEMENT_BYTES)
    between = between_bytes // (2048 * ELEMENT_BYTES)
    arrived, out = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(programs, device="cuda")
    shape = {"ROUNDS": ROUNDS, "TIMES": times, "STORES": stores, "PIECES": PIECES, "WIDTH": width, "PITCH": pitch}

    def run() -> None:
        arrived.zero_()
        rounds[(programs,)](x, y, out, arrived, tiles, between, turn, num_warps=8, **shape)

    notes = {
        "kept_bytes": tiles * PIECES * width * ELEMENT_BYTES,
        "between_bytes": between * 2048 * ELEMENT_BYTES,
        "turn": turn,
        "times": times,
        "stores": stores,
        "rounds": ROUNDS,
        "width": width,
        "pitch": pitch,
    }
    return Probe({**what, **notes}, run)


def plan(small: bool) -> Sequence[Probe]:
    """Return every launch with its description."""
    x = torch.zeros(1024 * MIB // ELEMENT_BYTES, device="cuda")
    y = torch.zeros((BETWEEN_MIB[-1] * ROUNDS + 1) * MIB // ELEMENT_BYTES, device="cuda")
    make = partial(probe, x=x, y=y)
    found: list[Probe] = []
    few = 1 if small else None
    ways = {
        "same programs": {},
        "other programs": {"turn": 37},
        "four times in a row": {"times": 4},
        "stores between": {"stores": True},
        "stores between, other programs": {"stores": True, "turn": 37},
    }
    for kept in KEPT_MIB[:few]:
        for name, way in ways.items():
            found += [make({"probe": "kept", "way": name}, kept_bytes=kept * MIB, between_bytes=one * MIB, **way)
                      for one in BETWEEN_MIB[:few]]  # fmt: skip
    pieces = {"lines": (32, 1024), "sectors of lines": (8, 32), "sectors of rows": (8, 1024), "two lines of rows": (64, 1024),
              "lines of odd rows": (32, 1056)}  # fmt: skip
    for name, (width, pitch) in pieces.items():
        sizes = [one * MIB for one in COLUMN_MIB[:few] if one * pitch <= 1024 * width]
        found += [
            make({"probe": "rows", "way": name}, kept_bytes=one, between_bytes=0, width=width, pitch=pitch) for one in sizes
        ]
    for name in ("same programs", "other programs"):
        sizes = [one * MIB for one in FILLED_MIB[:few]]
        found += [make({"probe": "filled", "way": name}, kept_bytes=one, between_bytes=0, **ways[name]) for one in sizes]
    return found


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, COUNTERS, plan))
