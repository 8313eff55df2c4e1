"""Turn local memory into reference streams for the model of the L2.

Local memory belongs to a place where a program runs: the next program there uses the same addresses. The programs of a wave
run the same instructions at about the same time. So one word of all that read through one half of the chip is one access: in
the model all places of a half are adjacent, word by word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ioaware.simulation.addresses.address_blocks import Rectangle
from ioaware.simulation.l2.events import READ, WRITE
from ioaware.simulation.schedule import Schedule
from ioaware.simulation.spills.local_memory import LocalEvents, LocalMemory
from ioaware.simulation.streams import ReferenceStream
from ioaware.simulation.timeline import Times

LOCAL_MEMORY = "local memory"
"""Name of the tensor that stands for local memory."""
LOCAL_STORAGE = -1
"""Its storage, beside those of tensors, which count from 0."""
PHASE_BYTES = 1 << 20
"""Bytes that all places access at one time: little of any L2."""
SIDES = (1, 2)
"""Masks of the halves of the chip."""


def local_streams(memory: LocalMemory, programs: Schedule, durations: Times) -> Iterator[tuple[int, ReferenceStream]]:
    """Yield the accesses of all programs to local memory, each with its kind.

    Repeated accesses to one word are in streams of their own, so that they stay apart when accesses are merged.
    """
    numbers = np.arange(durations.size, dtype=np.int64)
    waves, sides = int(programs.wave.max(initial=-1)) + 1, programs.partitions(programs.slot)
    rows: dict[tuple[bool, int, int], list[tuple[int, float, int, int]]] = defaultdict(list)
    begin = 0
    for side in SIDES:
        members = [numbers[(programs.wave == wave) & (sides == side)] for wave in range(waves)]
        pitch = max((one.size for one in members), default=0) * memory.word_bytes
        runs = _runs(memory.events, max(1, PHASE_BYTES // max(pitch, 1)))
        shares = np.array([one.share for one in runs])
        for of_wave in members:
            if not of_wave.size:
                continue
            first, duration = int(of_wave[0]), float(np.mean(durations[of_wave]))
            times: list[float] = programs.times(np.full(len(runs), first), shares * duration).tolist()
            for one, time in zip(runs, times, strict=True):
                size = one.words * of_wave.size * memory.word_bytes
                rows[one.stores, size, one.number].append((begin + one.first * pitch, time, first, side))
        begin += memory.words * pitch
    for (stores, size, _), found in rows.items():
        base, time, program, side = (np.array(column) for column in zip(*found, strict=True))
        part = Rectangle(0, 1, size, size)
        yield WRITE if stores else READ, ReferenceStream(base, time.astype(np.float64), program, side, (part,))


class _Run(NamedTuple):
    """Adjacent words that are accessed in one phase, for the `number`-th time."""

    first: int
    words: int
    stores: bool
    share: float
    number: int


def _runs(events: LocalEvents, phase_words: int) -> list[_Run]:
    """Return the accesses to local memory as runs, phase by phase."""
    phase = np.arange(events.words.size) // phase_words
    order = np.lexsort((events.share, events.words, events.stores, phase))
    words, stores, share, phase = events.words[order], events.stores[order], events.share[order], phase[order]
    same = (np.diff(phase) == 0) & (stores[1:] == stores[:-1])
    keep = np.ones(words.size, dtype=np.bool_)
    keep[1:] = ~(same & (np.diff(words) == 0))
    words, stores, share, phase = words[keep], stores[keep], share[keep], phase[keep]
    begins = np.ones(words.size, dtype=np.bool_)
    begins[1:] = (np.diff(words) != 1) | (np.diff(phase) != 0) | (stores[1:] != stores[:-1])
    first = np.flatnonzero(begins)
    count: list[int] = np.diff(np.append(first, words.size)).tolist()
    columns = (words[first].tolist(), count, stores[first].tolist(), share[first].tolist())
    seen: Counter[int] = Counter()
    found: list[_Run] = []
    for one in zip(*columns, strict=True):
        found.append(_Run(*one, max(seen[word] for word in range(one[0], one[0] + one[1]))))
        seen.update(range(one[0], one[0] + one[1]))
    return found
