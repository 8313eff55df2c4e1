"""Read the memory instructions of a kernel's machine code, with its loops.

Registers that are spilled move by STL and LDL at an offset to the stack pointer. Regions are loops, each ended by a branch
backwards, and what branches forwards skip. Source: NVIDIA, CUDA Binary Utilities.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ioaware.compilation.instructions.disassembly import (
    REGISTER_BYTES,
    Instruction,
    disassembled,
    instructions_of,
    thread_bytes,
)

Kind = Literal["spill", "refill", "global"]
WORD_BYTES = REGISTER_BYTES
BRANCH = re.compile(r"`\((\.L\w+)\)")
OFFSET = re.compile(r"\[R1(?:\+(0x[0-9a-f]+))?\]")
GLOBAL = ("LDG", "LDGSTS", "STG", "ATOMG", "RED", "REDG", "UTMALDG", "UTMASTG", "UTMAREDG", "LD", "ST")
KINDS: dict[str, Kind] = {"STL": "spill", "LDL": "refill", **dict.fromkeys(GLOBAL, "global")}


@dataclass(frozen=True, slots=True)
class MemoryInstruction:
    """Instruction of a warp that accesses memory: `bytes` of each thread.

    `offset` is that of a spilled register to the stack pointer. `place` is file and line of the source. `region` is the
    number of the innermost region around it, or None.
    """

    kind: Kind
    bytes: int
    offset: int
    place: str
    region: int | None
    cached: bool = True
    """Whether it leaves its lines in the L1."""
    last_use: bool = False
    """Whether a refill frees its line in the L1."""


@dataclass(frozen=True, slots=True)
class Region:
    """Loop, or code that a branch skips, and the number of the region around it."""

    loop: bool
    parent: int | None


@dataclass(frozen=True, slots=True)
class MachineTrace:
    """Memory instructions in order of their addresses, and regions, outer ones first."""

    instructions: tuple[MemoryInstruction, ...]
    regions: tuple[Region, ...]


def machine_trace(cubin: bytes) -> MachineTrace | None:
    """Return the memory instructions of a cubin; None without a disassembler."""
    text = disassembled(cubin)
    return None if text is None else trace_of(text)


@dataclass(frozen=True, slots=True)
class _Span:
    """First and last instruction of a region."""

    begin: int
    end: int
    loop: bool


def trace_of(text: str) -> MachineTrace:
    """Return the memory instructions of a disassembly."""
    lines, labels = instructions_of(text)
    spans = _spans(lines, labels)
    found = [
        _instruction(kind, line, _innermost(line.at, spans))
        for line in lines
        if (kind := KINDS.get(line.operation.partition(".")[0])) and "[" in line.operands
    ]
    regions = [Region(span.loop, _innermost(span.begin, spans[:number])) for number, span in enumerate(spans)]
    return MachineTrace(tuple(found), tuple(regions))


def _instruction(kind: Kind, line: Instruction, region: int | None) -> MemoryInstruction:
    last_use = kind == "refill" and "LU" in line.operation.split(".")
    offset = _offset(line.operands) if kind != "global" else 0
    return MemoryInstruction(kind, thread_bytes(line.operation), offset, line.place, region, _cached(line.operation), last_use)


def words_of(one: MemoryInstruction) -> range:
    """Return the numbers of the words of local memory that a refill or spill moves."""
    first = one.offset // WORD_BYTES
    return range(first, first + max(1, one.bytes // WORD_BYTES))


def _spans(lines: Sequence[Instruction], labels: dict[str, int]) -> list[_Span]:
    """Return the regions, outer ones first.

    Waits for barriers jump behind the last unconditional EXIT and back: these are no regions.
    """
    last = max((line.at for line in lines if line.operation == "EXIT" and not line.guarded), default=len(lines))
    branches = [
        (line, labels.get(target[1], line.at))
        for line in lines[:last]
        if line.operation.startswith("BRA") and (target := BRANCH.search(line.operands))
    ]
    ends: dict[int, int] = {}
    for line, to in branches:
        if to < line.at:
            ends[to] = max(ends.get(to, 0), line.at)
    loops = [_Span(begin, end, loop=True) for begin, end in ends.items()]
    skipped = [
        _Span(line.at + 1, to - 1, loop=False)
        for line, to in branches
        if line.guarded and line.at + 1 < to <= last and all(to <= one.end for one in loops if one.begin <= line.at <= one.end)
    ]
    return sorted([*loops, *skipped], key=lambda span: (span.begin, -span.end))


def _innermost(at: int, spans: Sequence[_Span]) -> int | None:
    """Return the number of the region that holds an instruction and begins last."""
    return next((number for number in range(len(spans) - 1, -1, -1) if spans[number].begin <= at <= spans[number].end), None)


def _cached(operation: str) -> bool:
    return not operation.startswith("UTMA") and "BYPASS" not in operation.split(".")


def _offset(operands: str) -> int:
    found = OFFSET.search(operands)
    return int(found[1], 16) if found and found[1] else 0
