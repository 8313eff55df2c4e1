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

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

READ, WRITE, ATOMIC = 0, 1, 2
Reason = Literal["wave", "capacity", "skew"]
REASONS: tuple[Reason, ...] = ("wave", "capacity", "skew")
REMOTE_COPY = 2
"""Bit of a key, beside the line number.

Bit 0 is the partition of an entry; this bit marks a copy of the other partition's line.
"""


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


class Event(NamedTuple):
    """Merge accesses to one line at one time.

    `left` and `right` are masks of the blocks accessed from each partition.

    `wave` and `program` are those of the first program in the event.
    """

    line: int
    left: int
    right: int
    kind: int
    tensor: int
    wave: int
    program: int


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


def _one_set(_: int) -> int:
    """Return the set of a line where there is one."""
    return 0


class L2:
    """State of the cache, carried from launch to launch.

    `block_bytes` is the bytes of one block of each tensor. `set_of` returns the set of a line within a partition.
    """

    def __init__(self, config: CacheConfig, block_bytes: Sequence[float], set_of: Callable[[int], int] = _one_set) -> None:
        self.config = config
        self.block_bytes = list(block_bytes)
        self.traffic = [HbmTraffic() for _ in block_bytes]
        self._set_of = set_of
        self._apart = config.partitions if config.sets else 1
        self._sides = self._apart - 1  # mask of a key's partition, where each has its own sets
        count = max(1, config.sets * self._apart)
        self._resident: list[OrderedDict[int, int]] = [OrderedDict() for _ in range(count)]
        self._used = [0.0] * count
        self._set_bytes = config.capacity_bytes / count
        self._overfull: set[int] = set()
        self._place: dict[int, int] = {}
        self._dirty: OrderedDict[int, int] = OrderedDict()
        self._tensor: dict[int, int] = {}
        self._read_before: dict[int, int] = {}
        self._written_before: dict[int, int] = {}
        self._last_access: dict[int, Event] = {}
        self._weights = [size / config.partitions for size in block_bytes]
        self._dirty_used = 0.0

    def run(self, events: Iterable[Event]) -> None:
        """Replay events in order."""
        tensors, last, limit, place = self._tensor, self._last_access, self.config.dirty_bytes, self._place
        read = self._read if self.config.partitions == 2 else self._read_undivided
        for event in events:
            line = event[0]
            if line not in place:
                tensors[line] = event.tensor
                place[line] = self._set_of(line) * self._apart
            if event.kind == READ:
                read(event)
            else:
                self._write(event)
            if self._overfull or self._dirty_used > limit:
                self._evict()
            last[line] = event

    def flush(self, *, write_back: bool) -> None:
        """Empty the cache between launches, as a profiler does.

        Dirty lines count as written where `write_back`.
        """
        for key, mask in self._dirty.items():
            traffic = self.traffic[self._tensor[key >> 2]]
            size = mask.bit_count() * self._weight(key)
            if write_back:
                traffic.write_bytes += size
            else:
                traffic.left_dirty_bytes += size
        for lines in self._resident:
            lines.clear()
        self._dirty.clear()
        self._read_before.clear()
        self._written_before.clear()
        self._last_access.clear()
        self._used = [0.0] * len(self._used)
        self._dirty_used = 0.0

    @property
    def dirty_bytes(self) -> list[float]:
        """Dirty bytes in the cache now, by tensor."""
        left = [0.0] * len(self.block_bytes)
        for key, mask in self._dirty.items():
            left[self._tensor[key >> 2]] += mask.bit_count() * self._weight(key)
        return left

    def _weight(self, key: int) -> float:
        return self._weights[self._tensor[key >> 2]]

    def _read_undivided(self, event: Event) -> None:
        """Look blocks up in the only partition."""
        key = event.line << 2
        missing = self._look_up(key, event.left | event.right, event.tensor)
        if missing:
            self._count_read(event, key, missing)

    def _read(self, event: Event) -> None:
        """Look blocks up in the home partition and the reader's own.

        Why hits call no method: they are most accesses, and calls are most of their time.
        """
        line, left, right, _, tensor, _, _ = event
        key, first, sets, keep = line << 2, self._place[line], self._resident, not self.config.by_age
        both = sets[first], sets[first + self._apart - 1]
        for side, mask in ((0, left), (1, right)):
            if not mask:
                continue
            own, remote, home = both[side], both[1 - side], key | side
            if mask & ~own.get(home, 0):
                self._count_read(event, home, self._look_up(home, mask, tensor))
            elif keep:
                own.move_to_end(home)
            copy, other = home | REMOTE_COPY, home ^ 1
            if mask & ~own.get(copy, 0):
                missing = self._look_up(copy, mask, tensor)
                if missing & ~remote.get(other, 0):
                    self._count_read(event, other, self._look_up(other, missing, tensor))
                elif keep:
                    remote.move_to_end(other)
            elif keep:
                own.move_to_end(copy)

    def _write(self, event: Event) -> None:
        """Write blocks at their home; an atomic reads absent blocks first."""
        base, mask = event.line << 2, event.left | event.right
        for side in range(self.config.partitions):
            missing = self._look_up(base | side, mask, event.tensor)
            if missing and event.kind == ATOMIC:
                self._count_read(event, base | side, missing)
            self._mark_dirty(base | side, mask, event.tensor)
            if self.config.partitions == 2:
                self._write_copy(event, base | REMOTE_COPY | side, (event.left, event.right)[side], mask)

    def _write_copy(self, event: Event, key: int, own: int, written: int) -> None:
        """Update the copies that a partition has of the other's blocks.

        Blocks that its own SMs write, `own`, stay; others that are written are stale.
        """
        kept = 0 if event.kind == ATOMIC else own
        self._invalidate(key, written & ~kept)
        if kept:
            self._look_up(key, kept, event.tensor)

    def _look_up(self, key: int, mask: int, tensor: int) -> int:
        """Make blocks of an entry the most recently used, inserting absent ones.

        Return the absent ones.
        """
        number = self._place[key >> 2] + (key & self._sides)
        entries = self._resident[number]
        resident = entries.get(key)
        if resident is None:
            entries[key] = missing = mask
        else:
            entries.move_to_end(key)
            missing = mask & ~resident
            if not missing:
                return 0
            entries[key] = resident | mask
        self._used[number] += missing.bit_count() * self._weights[tensor]
        if self._used[number] > self._set_bytes:
            self._overfull.add(number)
        return missing

    def _invalidate(self, key: int, mask: int) -> None:
        number = self._place[key >> 2] + (key & self._sides)
        entries = self._resident[number]
        resident = entries.get(key)
        if resident is not None and resident & mask:
            self._used[number] -= (resident & mask).bit_count() * self._weight(key)
            if resident & ~mask:
                entries[key] = resident & ~mask
            else:
                del entries[key]

    def _mark_dirty(self, key: int, mask: int, tensor: int) -> None:
        before = self._dirty.pop(key, 0)
        self._dirty[key] = before | mask
        self._dirty_used += (mask & ~before).bit_count() * self._weights[tensor]

    def _count_read(self, event: Event, key: int, missing: int) -> None:
        """Count blocks read from HBM, repeated reads by reason."""
        traffic, size = self.traffic[event.tensor], self._weights[event.tensor]
        read_before = self._read_before.get(key, 0)
        reread = (missing & read_before).bit_count()
        traffic.read_bytes += missing.bit_count() * size
        traffic.first_bytes += (missing.bit_count() - reread) * size
        self._read_before[key] = read_before | missing
        if reread:
            before = self._last_access.get(event.line, event)
            reason: Reason = "wave" if event.wave > before.wave else "capacity" if before.program == event.program else "skew"
            traffic.excess_bytes[reason] += reread * size

    def _evict(self) -> None:
        """Evict the oldest lines of sets that are too full; limit the dirty ones."""
        dirty, tensors, weights, most = self._dirty, self._tensor, self._weights, self._set_bytes
        for number in self._overfull:
            oldest, used = self._resident[number].popitem, self._used[number]
            while used > most:
                key, mask = oldest(last=False)
                used -= mask.bit_count() * weights[tensors[key >> 2]]
                if key in dirty:
                    self._write_back(key, dirty.pop(key))
            self._used[number] = used
        self._overfull.clear()
        while self._dirty_used > self.config.dirty_bytes:
            self._write_back(*dirty.popitem(last=False))

    def _write_back(self, key: int, dirty: int) -> None:
        size = self._weight(key)
        traffic = self.traffic[self._tensor[key >> 2]]
        before = self._written_before.get(key, 0)
        self._written_before[key] = before | dirty
        traffic.write_bytes += dirty.bit_count() * size
        traffic.rewritten_bytes += (dirty & before).bit_count() * size
        self._dirty_used -= dirty.bit_count() * size
