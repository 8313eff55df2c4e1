"""Find which loads of spilled registers miss in the L1.

The warps of an SM are replayed.

A word of local memory lies in one line of 128 bytes for all threads of a warp. The L1 has such lines as any others: a store
brings one, and one that hits leaves later. A load that the compiler marks as last use brings no line, and its line is kept no
longer. The words of a warp lie side by side, and the next program in the same place uses the same memory.

Source: `h200-local.json` in `ioaware/recorded/l1`; CUDA C++ Programming Guide, local memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.l1.l1_sets import LAST, LAST_USE, NORMAL, STORED, WAYS, add_served_sectors
from ioaware.simulation.l1.l1_shape import LINE_BYTES, LINE_SECTORS
from ioaware.simulation.schedule import mixed
from ioaware.simulation.spills.execution_order import execution_order
from ioaware.simulation.spills.lines_of_places import PlaceLines
from ioaware.simulation.spills.machine_trace import WORD_BYTES, MachineTrace, MemoryInstruction, words_of

Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]
MAX_EVENTS = 1 << 20
"""Lines that the warps access in the replay, a tenth of a second of a core."""
FILLS = 4
"""Times that programs fill the L1 before misses are counted, if so many run."""
TIME_OF_LINE = 7
"""Time of a line from HBM over that of an access to the L1, on an H200.

An L1 gives a line a clock; 4 TB/s are 17 bytes a clock of each SM.
"""
LOCAL, OWN, COMMON = range(3)
"""Lines of local memory, of tensors of one program, and of those of all."""
TENSOR, WEIGHTS = 1 << 36, 1 << 44
"""Numbers of the first lines of tensors, and of those that all programs access."""


@dataclass(frozen=True, slots=True)
class L1Sharing:
    """L1 of an SM that runs `programs` of so many `warps` at once.

    Each place runs `rounds` of them, one after the other. `places` has the lines that source lines of tensors touch.
    """

    l1_bytes: int
    warps: int
    programs: int = 1
    rounds: int = 1
    places: Mapping[str, PlaceLines] = field(default_factory=dict[str, PlaceLines])


class _Lines(NamedTuple):
    """Lines that a warp accesses in order.

    Each has its instruction, its number among those of its kind, its use and its kind.
    """

    instruction: Numbers
    line: Numbers
    use: Numbers
    kind: Numbers


def refill_misses(trace: MachineTrace, counts: Sequence[float], sm: L1Sharing) -> Shares:
    """Return the share of each instruction's executions that misses in the L1.

    Tensors are taken as accessed once. `counts` says how often a program runs each region.
    """
    size, sets, warps = len(trace.instructions), sm.l1_bytes // (LINE_BYTES * WAYS), sm.warps * sm.programs
    one = _lines_of_a_warp(trace, counts, sm.places, MAX_EVENTS // (2 * warps))
    count = one.line.size
    if not sets or not count:
        return np.ones(size)
    most = max(1, min(MAX_EVENTS // (count * warps), -(-FILLS * sets * WAYS // (count * warps)) + 2))
    rounds = min(sm.rounds, most)
    end = np.cumsum(np.where(one.kind == OWN, TIME_OF_LINE, 1))
    begin = mixed(np.arange(sm.programs, dtype=np.int64)) % np.uint64(end[-1] if sm.rounds > rounds else 1)
    passed = (np.arange(rounds)[:, None] * end[-1] + end[None, :]).ravel()
    time = np.repeat(begin.astype(np.int64), sm.warps)[:, None] + passed[None, :]
    order = np.argsort(time.ravel(), kind="stable")
    warp, step = np.divmod(order, rounds * count)
    turn, at = np.divmod(step, count)
    line = np.choose(
        one.kind[at],
        (
            (warp * _pieces(trace, sets)) * sets + one.line[at],
            TENSOR + (turn * warps + warp) * count + one.line[at],
            WEIGHTS + one.line[at],
        ),
    )
    counted = turn >= (rounds // 2 if sm.rounds > rounds else 0)
    number = counted * size + one.instruction[at]
    served = np.zeros(2 * size, dtype=np.int64)
    whole = np.full(line.size, (1 << LINE_SECTORS) - 1, dtype=np.uint64)
    never = np.zeros(line.size, dtype=np.int16)
    uses = one.use[at].astype(np.int8)
    add_served_sectors(served, sm.l1_bytes, line, np.ones_like(line), whole, number, uses, never)
    loads = np.bincount(number, minlength=2 * size)[size:] * LINE_SECTORS
    return np.where(loads > 0, 1 - served[size:] / np.maximum(loads, 1), 1.0)


def _pieces(trace: MachineTrace, sets: int) -> int:
    """Return how many pieces as large as a way hold the words of a warp."""
    return 1 + max((max(words_of(one)) for one in trace.instructions if one.kind != "global"), default=0) // sets


def _lines_of_a_warp(trace: MachineTrace, counts: Sequence[float], places: Mapping[str, PlaceLines], most: int) -> _Lines:
    """Return the lines that a warp accesses, at most about so many.

    Loops run fewer times where there are more.
    """
    rows: list[tuple[int, int, int, int]] = []
    brought, due, shared = 0, 0.0, 0.0
    order: list[int] = execution_order(trace, counts, most).tolist()
    for number in order:
        one = trace.instructions[number]
        if one.kind == "global":
            place = places.get(one.place, PlaceLines())
            due += place.inside * one.bytes / WORD_BYTES if one.cached else 0.0
            for _ in range(int(due)):
                shared += place.shared
                rows.append((number, brought, LAST if shared >= 1 else NORMAL, COMMON if place.common else OWN))
                brought, due, shared = brought + 1, due - 1, shared - (shared >= 1)
            continue
        rows += [(number, word, use_of(one), LOCAL) for word in words_of(one)]
    return _Lines(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def use_of(one: MemoryInstruction) -> int:
    """Return how an access to local memory uses lines of the L1."""
    return STORED if one.kind == "spill" else LAST_USE if one.last_use else NORMAL
