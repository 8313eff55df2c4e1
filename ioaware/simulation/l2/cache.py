"""Model an L2 of one or two partitions, with sets and write-back.

The input is a stream of merged accesses to lines of up to 64 blocks; a mask marks the valid blocks of a line. Every
address has a home partition, chosen by hash: half of the lines of any block. An SM reads through its own partition. A line at
home there is kept once. A line of the other partition is fetched through its home and kept in both. A hit in the copy is no use
of the line at home, which leaves first. So a block read by the SMs of one partition occupies up to 1.5 times its bytes, one
read by both twice its bytes. So does a block that they write: it becomes dirty at its home, and the writer's partition keeps a
copy. Atomics are performed at the home alone. With `partitions=1` it is a plain LRU cache. Each set of a partition replaces its
own lines, the least recently used first.

Source: memory that other SMs read again, with reads of other memory in between, in `ioaware/recorded/l2/h100-replacement.json`.
An eighth of it misses in a cache that holds it, all that was read in the other partition twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.addresses.address_blocks import Numbers
from ioaware.simulation.l2.cache_state import (
    DIRTY,
    ENTRIES,
    EXCESS_BYTES,
    FIRST_BYTES,
    PLACE,
    READ_BYTES,
    REWRITTEN_BYTES,
    TENSOR,
    WRITE_BYTES,
    Shape,
    empty_state,
    with_lines,
)
from ioaware.simulation.l2.cache_steps import replay
from ioaware.simulation.l2.events import Events

Reason = Literal["wave", "capacity", "skew"]
REASONS: tuple[Reason, ...] = ("wave", "capacity", "skew")


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Capacity, partitions and write-back limit.

    Dirty lines beyond `dirty_bytes` are written back and stay clean in the cache. Where `by_age`, reads that hit do not keep a
    line: the one that came first leaves first. `sets` is the sets of each partition; 0 is one set for all partitions.
    """

    capacity_bytes: float
    partitions: Literal[1, 2] = 2
    dirty_bytes: float = float("inf")
    by_age: bool = False
    sets: int = 0


@dataclass(slots=True)
class HbmTraffic:
    """Bytes between HBM and the L2 for one tensor.

    `excess_bytes` are repeated reads of the same block, by reason.
    """

    read_bytes: float = 0.0
    write_bytes: float = 0.0
    first_bytes: float = 0.0
    excess_bytes: dict[Reason, float] = field(default_factory=lambda: dict.fromkeys(REASONS, 0.0))
    rewritten_bytes: float = 0.0
    left_dirty_bytes: float = 0.0


def _one_set(lines: Numbers) -> Numbers:
    """Return the set of each line where there is one."""
    return np.zeros_like(lines)


class L2:
    """State of the cache, carried from launch to launch.

    `block_bytes` is the bytes of one block of each tensor. `set_of` returns the sets of lines within a partition.
    """

    def __init__(
        self, config: CacheConfig, block_bytes: Sequence[float], set_of: Callable[[Numbers], Numbers] = _one_set
    ) -> None:
        self.config = config
        self._set_of = set_of
        apart = config.partitions if config.sets else 1
        count = max(1, config.sets * apart)
        keep, dirty_bytes = int(not config.by_age), float(config.dirty_bytes)
        self._shape = Shape(config.partitions, apart, keep, config.capacity_bytes / count, dirty_bytes)
        self._known = np.empty(0, dtype=np.int64)  # lines, in order, and their numbers in the state
        self._numbers = np.empty(0, dtype=np.int64)
        self._sets = count
        self._state = empty_state(count, np.array(block_bytes, dtype=np.float64) / config.partitions)
        self._left_dirty = [0.0] * len(block_bytes)

    def run(self, events: Events) -> None:
        """Replay events in order."""
        self._meet(events)
        if events.size:
            replay(self._state, self._shape, events, self._numbers[np.searchsorted(self._known, events.lines)])

    def flush(self, *, write_back: bool) -> None:
        """Empty the cache between launches, as a profiler does.

        Dirty lines count as written where `write_back`.
        """
        dirty = self.dirty_bytes
        if write_back:
            self._state.bytes[:, WRITE_BYTES] += dirty
        else:
            self._left_dirty = [sum(pair) for pair in zip(self._left_dirty, dirty, strict=True)]
        emptied, state = empty_state(self._sets, self._state.weight), self._state
        self._state = with_lines(emptied, state.lines[:, PLACE], state.lines[:, TENSOR])._replace(bytes=state.bytes)

    def forget_traffic(self) -> None:
        """Begin to count anew; the contents stay."""
        self._state.bytes[:] = 0
        self._left_dirty = [0.0] * len(self._left_dirty)

    @property
    def traffic(self) -> list[HbmTraffic]:
        """What was counted, by tensor."""
        return [
            HbmTraffic(
                row[READ_BYTES],
                row[WRITE_BYTES],
                row[FIRST_BYTES],
                dict(zip(REASONS, row[EXCESS_BYTES:], strict=True)),
                row[REWRITTEN_BYTES],
                left,
            )
            for row, left in zip(self._state.bytes.tolist(), self._left_dirty, strict=True)
        ]

    @property
    def dirty_bytes(self) -> list[float]:
        """Dirty bytes in the cache now, by tensor."""
        state = self._state
        blocks = np.bitwise_count(state.masks[:, DIRTY]).reshape(-1, ENTRIES).sum(axis=1)
        left: NDArray[np.float64] = np.bincount(state.lines[:, TENSOR], blocks, minlength=state.weight.size) * state.weight
        return left.tolist()

    def _meet(self, events: Events) -> None:
        """Add the lines that come for the first time, with their tensors and sets."""
        fresh = ~np.isin(events.lines, self._known, assume_unique=True)
        new = events.lines[fresh]
        tensor = np.empty_like(events.lines)
        tensor[events.line[::-1]] = events.tensor[::-1]  # that of its first event
        self._numbers = np.concatenate((self._numbers, self._known.size + np.arange(new.size)))
        self._known = np.concatenate((self._known, new))
        order = np.argsort(self._known, kind="stable")
        self._known, self._numbers = self._known[order], self._numbers[order]
        self._state = with_lines(self._state, self._set_of(new), tensor[fresh])
