"""An L2 of two partitions with LRU replacement and write-back, fed with merged touches of blocks.

Every address has a home partition (by hash: half of the lines of any block). An SM reads through its own partition: a line that
is at home there is kept once, a line of the other partition is fetched through its home and kept in both. A block that SMs of
one side read occupies 1.5 times its bytes, one that both sides read twice its bytes. Writes and atomics go to the home alone.
With `partitions=1` it is a plain LRU cache.

Blocks are grouped in units of up to 64; a unit is the grain of replacement, a bit of its mask says which blocks are there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

READ, WRITE, ATOMIC = 0, 1, 2
Reason = Literal["wave", "capacity", "skew"]
REASONS: tuple[Reason, ...] = ("wave", "capacity", "skew")
COPY = 2
"""In a key, beside the unit: bit 0 says which partition holds an entry, this bit that it is a copy from the other."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What the model needs of a cache. `dirty_bytes`: dirty lines beyond this are written back and stay as clean ones."""

    capacity_bytes: float
    partitions: Literal[1, 2] = 2
    dirty_bytes: float = float("inf")


class Event(NamedTuple):
    """Touches of one unit at one time, merged: `left` and `right` are the blocks that SMs of each partition touch.

    `wave` and `program` are those of the first program that takes part.
    """

    unit: int
    left: int
    right: int
    kind: int
    tensor: int
    wave: int
    program: int


@dataclass(slots=True)
class Moved:
    """Bytes between HBM and the L2 for one tensor. `excess_bytes` are reads of what had been in the L2 before, by reason."""

    read_bytes: float = 0.0
    write_bytes: float = 0.0
    first_bytes: float = 0.0
    excess_bytes: dict[Reason, float] = field(default_factory=lambda: dict.fromkeys(REASONS, 0.0))
    rewritten_bytes: float = 0.0
    left_dirty_bytes: float = 0.0


class L2:
    """The state of the cache; it lives on from launch to launch. `block_bytes` of a tensor is the weight of one bit."""

    def __init__(self, shape: CacheShape, block_bytes: Sequence[float]) -> None:
        self.shape = shape
        self.block_bytes = list(block_bytes)
        self.moved = [Moved() for _ in block_bytes]
        self._held: OrderedDict[int, int] = OrderedDict()
        self._dirty: OrderedDict[int, int] = OrderedDict()
        self._tensor: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._last: dict[int, tuple[int, int]] = {}
        self._weights = [size / shape.partitions for size in block_bytes]
        self._used = 0.0
        self._dirty_used = 0.0

    def run(self, events: Iterable[Event]) -> None:
        """Replay events in order."""
        for event in events:
            if event.unit not in self._tensor:
                self._tensor[event.unit] = event.tensor
            missing = self._write(event) if event.kind != READ else self._read(event)
            if missing:
                self._shrink()
            self._last[event.unit] = (event.wave, event.program)

    def forget(self, *, write_back: bool) -> None:
        """Empty the cache between launches, as a profiler does; dirty lines count as written where `write_back`."""
        for key, mask in self._dirty.items():
            moved = self.moved[self._tensor[key >> 2]]
            bytes_ = mask.bit_count() * self._weight(key)
            if write_back:
                moved.write_bytes += bytes_
            else:
                moved.left_dirty_bytes += bytes_
        self._held.clear()
        self._dirty.clear()
        self._seen.clear()
        self._written.clear()
        self._last.clear()
        self._used = self._dirty_used = 0.0

    @property
    def dirty_bytes(self) -> list[float]:
        """Dirty bytes in the cache now, by tensor."""
        left = [0.0] * len(self.block_bytes)
        for key, mask in self._dirty.items():
            left[self._tensor[key >> 2]] += mask.bit_count() * self._weight(key)
        return left

    def _weight(self, key: int) -> float:
        return self._weights[self._tensor[key >> 2]]

    def _read(self, event: Event) -> bool:
        """Look blocks up, in the home partition and the reader's own; return whether anything was put in."""
        key = event.unit << 2
        if self.shape.partitions == 1:
            missing = self._touch(key, event.left | event.right, event.tensor)
            if missing:
                self._fetched(event, key, missing)
            return bool(missing)
        put = 0
        for side, mask in ((0, event.left), (1, event.right)):
            if mask:
                missing = self._touch(key | side, mask, event.tensor)
                if missing:
                    self._fetched(event, key | side, missing)
                    put = 1
                missing = self._touch(key | COPY | side, mask, event.tensor)
                if missing:
                    put = 1
                    missing = self._touch(key | (1 - side), missing, event.tensor)
                    if missing:
                        self._fetched(event, key | (1 - side), missing)
        return bool(put)

    def _write(self, event: Event) -> bool:
        """Change blocks at their home; an atomic reads those that are not there."""
        base, mask = event.unit << 2, event.left | event.right
        for side in range(self.shape.partitions):
            missing = self._touch(base | side, mask, event.tensor)
            if missing and event.kind == ATOMIC:
                self._fetched(event, base | side, missing)
            self._soil(base | side, mask)
            if self.shape.partitions == 2:
                self._drop(base | COPY | side, mask)
        return True

    def _touch(self, key: int, mask: int, tensor: int) -> int:
        """Make blocks of an entry the most recently used; return those that were not there."""
        entries = self._held
        held = entries.get(key)
        if held is None:
            entries[key] = missing = mask
        else:
            entries.move_to_end(key)
            missing = mask & ~held
            if not missing:
                return 0
            entries[key] = held | mask
        self._used += missing.bit_count() * self._weights[tensor]
        return missing

    def _drop(self, key: int, mask: int) -> None:
        held = self._held.get(key)
        if held is not None and held & mask:
            self._used -= (held & mask).bit_count() * self._weight(key)
            if held & ~mask:
                self._held[key] = held & ~mask
            else:
                del self._held[key]

    def _soil(self, key: int, mask: int) -> None:
        before = self._dirty.pop(key, 0)
        self._dirty[key] = before | mask
        self._dirty_used += (mask & ~before).bit_count() * self._weight(key)

    def _fetched(self, event: Event, key: int, missing: int) -> None:
        """Count blocks read from HBM, those that had been there before by reason."""
        moved = self.moved[event.tensor]
        bytes_ = self.block_bytes[event.tensor] / self.shape.partitions
        moved.read_bytes += missing.bit_count() * bytes_
        seen = self._seen.get(key, 0)
        again = (missing & seen).bit_count()
        moved.first_bytes += (missing.bit_count() - again) * bytes_
        self._seen[key] = seen | missing
        if again:
            wave, program = self._last.get(event.unit, (event.wave, event.program))
            reason: Reason = "wave" if event.wave > wave else "capacity" if program == event.program else "skew"
            moved.excess_bytes[reason] += again * bytes_

    def _shrink(self) -> None:
        while self._used > self.shape.capacity_bytes:
            key, mask = self._held.popitem(last=False)
            self._used -= mask.bit_count() * self._weight(key)
            dirty = self._dirty.pop(key, 0)
            if dirty:
                self._write_back(key, dirty)
        while self._dirty_used > self.shape.dirty_bytes:
            key, dirty = self._dirty.popitem(last=False)
            self._write_back(key, dirty)

    def _write_back(self, key: int, dirty: int) -> None:
        bytes_ = self._weight(key)
        moved = self.moved[self._tensor[key >> 2]]
        before = self._written.get(key, 0)
        self._written[key] = before | dirty
        moved.write_bytes += dirty.bit_count() * bytes_
        moved.rewritten_bytes += (dirty & before).bit_count() * bytes_
        self._dirty_used -= dirty.bit_count() * bytes_
