"""Find what spilled registers of a program move between L1 and L2, and when.

Spills are written through the L1. What a load moves depends on whether it hits there.

Source: CUDA C++ Programming Guide, local memory; spills of recorded launches are counted as L2 writes to the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.l1.l1_sets import STORED
from ioaware.simulation.l1.l1_shape import LINE_BYTES
from ioaware.simulation.spills.execution_order import execution_order, times_run
from ioaware.simulation.spills.machine_trace import WORD_BYTES, MachineTrace, words_of
from ioaware.simulation.spills.refill_misses import L1Sharing, refill_misses, use_of

Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]
MAX_EXECUTIONS = 1 << 18
"""Most instructions of a warp that are placed in time."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LocalEvents:
    """Words that a program stores or loads in the L2, at shares of its duration."""

    words: Numbers
    stores: NDArray[np.bool_]
    share: Shares


@dataclass(frozen=True, slots=True)
class LocalAccesses:
    """Words that a program accesses, at shares of its duration.

    `uses` are those of `l1_sets`; `in_l2` says which the L2 sees.
    """

    words: Numbers
    uses: NDArray[np.int8]
    share: Shares
    in_l2: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LocalMemory:
    """Local memory of one program, and its bytes between L1 and L2.

    `words` of `word_bytes` each, for all its threads. `loaded_bytes` are those of all refills, with those that hit in the L1.
    `most_spilled_bytes` are those with skipped code of which nothing says how often it runs.
    """

    words: int
    word_bytes: int
    spilled_bytes: int
    refilled_bytes: int
    loaded_bytes: int
    accesses: LocalAccesses
    most_spilled_bytes: int = 0

    @property
    def events(self) -> LocalEvents:
        """Accesses that the L2 sees."""
        seen = self.accesses.in_l2
        return LocalEvents(self.accesses.words[seen], self.accesses.uses[seen] == STORED, self.accesses.share[seen])


def local_memory(
    trace: MachineTrace, counts: Sequence[float], warps: int, sm: L1Sharing, most: Sequence[float] | None = None
) -> LocalMemory | None:
    """Return what a program moves to and from local memory; None where it has none.

    `counts` says how often a program runs each region, `most` how often at most where that differs.
    """
    if all(one.kind == "global" for one in trace.instructions):
        return None
    misses = refill_misses(trace, counts, sm)
    words, accesses = _accesses(trace, counts, misses)
    moved = {"spill": 0.0, "refill": 0.0, "miss": 0.0}
    for one, share in zip(trace.instructions, misses.tolist(), strict=True):
        if one.kind != "global":
            size = one.bytes * times_run(one, counts)
            moved[one.kind] += size
            moved["miss"] += size * share if one.kind == "refill" else 0.0
    threads = LINE_BYTES // WORD_BYTES * warps
    stored, missed, loaded = (round(moved[kind]) * threads for kind in ("spill", "miss", "refill"))
    at_most = sum(
        one.bytes * times_run(one, counts if most is None else most) for one in trace.instructions if one.kind == "spill"
    )
    return LocalMemory(words, LINE_BYTES * warps, stored, missed, loaded, accesses, round(at_most) * threads)


def _accesses(trace: MachineTrace, counts: Sequence[float], misses: Shares) -> tuple[int, LocalAccesses]:
    """Return the number of words, and the accesses to them.

    Words are numbered in the order of their first access.
    """
    order = execution_order(trace, counts, MAX_EXECUTIONS)
    work = np.cumsum(np.array([one.bytes for one in trace.instructions])[order])
    numbers: list[int] = order.tolist()
    done: list[float] = (work / work[-1]).tolist()
    number_of: dict[int, int] = {}
    found: list[tuple[int, int, float, bool]] = []
    due = [0.0] * len(trace.instructions)
    for number, share in zip(numbers, done, strict=True):
        one = trace.instructions[number]
        if one.kind == "global":
            continue
        due[number] += 1.0 if one.kind == "spill" else float(misses[number])
        in_l2 = due[number] > 1 - ROUNDING
        due[number] -= in_l2
        found += [(number_of.setdefault(word, len(number_of)), use_of(one), share, in_l2) for word in words_of(one)]
    words, uses, shares, seen = zip(*found, strict=True) if found else ((), (), (), ())
    return len(number_of), LocalAccesses(
        np.array(words, dtype=np.int64),
        np.array(uses, dtype=np.int8),
        np.array(shares, dtype=np.float64),
        np.array(seen, dtype=np.bool_),
    )
