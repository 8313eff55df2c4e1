"""Find which loads of spilled registers miss in the L1.

A word of local memory lies in one line of 128 bytes for all threads of a warp. Spills leave their line in the L1, as stores do.
Loads that the compiler marks as last use free it. A load misses where more lines have been younger than its own at one time
than the L1 keeps. Those of its own warp are replayed. The other warps of the SM are at any place of their programs: each has as
many lines of tensors, and of local memory no more than a warp has on average. What all programs read, such as weights, is once
in the L1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.l1.l1_shape import NEVER, L1Shape
from ioaware.simulation.spills.execution_order import execution_order
from ioaware.simulation.spills.machine_trace import WORD_BYTES, MachineTrace, words_of

Shares = NDArray[np.float64]
MAX_EXECUTIONS = 16_000
"""Most instructions of a warp that are replayed, about a second of a core."""


class YoungerLines:
    """Lines of local memory in the L1, and how many are younger, now and at most."""

    def __init__(self, lines: int) -> None:
        self._last = np.full(lines, NEVER, dtype=np.int64)
        self._younger = np.zeros(lines, dtype=np.int64)
        self._most = np.zeros(lines, dtype=np.int64)
        self._passed = np.zeros(lines, dtype=np.int64)
        self._common_passed = np.zeros(lines, dtype=np.int64)
        self._now = self._tensors = self._common = 0

    @property
    def live(self) -> int:
        """Lines of local memory now."""
        return int(np.count_nonzero(self._last != NEVER))

    def access(self, line: int, *, last_use: bool = False) -> tuple[int, int, int]:
        """Return the most lines of local memory and of tensors that were younger.

        They are those since the last access, `NEVER` where there is none. The third number is that of common lines of tensors.
        """
        before = self._last[line]
        tensors, common = self._tensors - int(self._passed[line]), self._common - int(self._common_passed[line])
        found = (max(0, int(self._most[line]) - tensors), tensors, common) if before != NEVER else (NEVER, NEVER, NEVER)
        self._passed[line], self._common_passed[line] = self._tensors, self._common
        if last_use:
            self._younger[(self._last < before) & (self._last != NEVER)] -= 1
            self._last[line] = NEVER
            return found
        self._push(self._last > before, 1)
        self._now += 1
        self._last[line], self._younger[line], self._most[line] = self._now, 0, 0
        return found

    def pass_by(self, lines: int, *, common: bool = False) -> None:
        """Make so many lines of tensors younger than all lines of local memory."""
        self._tensors += lines
        self._common += lines if common else 0
        self._push(self._last != NEVER, lines)

    def _push(self, which: NDArray[np.bool_], lines: int) -> None:
        self._younger[which] += lines
        np.maximum(self._most, self._younger, out=self._most)


@dataclass(frozen=True, slots=True)
class L1Sharing:
    """L1 of an SM and the warps that it runs at once.

    `common` are the source lines whose addresses all programs access.
    """

    shape: L1Shape
    warps: int
    common: frozenset[str] = frozenset()


def refill_misses(trace: MachineTrace, counts: Sequence[float], sm: L1Sharing) -> Shares:
    """Return the share of each instruction's executions that misses in the L1.

    Tensors are taken as accessed once. `counts` says how often a program runs each region.
    """
    words = [word for one in trace.instructions if one.kind != "global" for word in words_of(one)]
    cache = YoungerLines(max(words, default=0) + 1)
    of, found, live = list[int](), list[tuple[int, int, int]](), list[int]()
    order: list[int] = execution_order(trace, counts, MAX_EXECUTIONS).tolist()
    for number in order:
        one = trace.instructions[number]
        if one.kind == "global":
            if one.cached:
                cache.pass_by(max(1, one.bytes // WORD_BYTES), common=one.place in sm.common)
            live.append(cache.live)
            continue
        for word in words_of(one):
            of.append(number)
            found.append(cache.access(word, last_use=one.last_use))
        live.append(cache.live)
    local, tensors, common = np.array(found, dtype=np.int64).T
    others = (sm.warps - 1) * (tensors - common + np.minimum(local, round(float(np.mean(live)))))
    hits = sm.shape.hit_shares(np.where(local == NEVER, NEVER, local + tensors + others))
    size = len(trace.instructions)
    return np.bincount(of, 1 - hits, size) / np.maximum(np.bincount(of, minlength=size), 1)
