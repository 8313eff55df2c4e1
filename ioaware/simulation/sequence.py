"""Launches of one target replayed one after the other through one L2, once as stated and once for each thing not known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ioaware.machine.model import L2Model
from ioaware.simulation.address_blocks import Blocks
from ioaware.simulation.cache import L2, READ, CacheShape, Event, Moved
from ioaware.simulation.launch_replay import Replay, launch_events, layout
from ioaware.simulation.regimes import regime
from ioaware.simulation.simulation_result import TensorTraffic

MAX_EVENTS_TWICE = 400_000
"""Launches with more events are simulated without the variants, whose time would add up."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch before it is replayed: `replay` makes it for a given skew; `storage` numbers the memory of its arguments."""

    replay: Callable[[float], Replay]
    storage: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LaunchMoved:
    """What one launch moves, by tensor, and in all."""

    tensors: tuple[TensorTraffic, ...]
    read_bytes: int
    write_bytes: int
    left_dirty_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """All launches as stated, and the reads and writes of each under every variant."""

    launches: tuple[LaunchMoved, ...]
    replays: tuple[Replay, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    varied: bool


def run(
    prepared: Sequence[Prepared], sizes: Sequence[int], capacity_bytes: int, model: L2Model, *, cold: bool, ranges: bool = True
) -> Outcome:
    """Replay launches on memory of these sizes; `ranges` asks for the variants.

    `cold` empties the L2 before each launch, what it leaves dirty uncounted. Otherwise all that is dirty after the last launch
    is written by it.
    """
    replays = [one.replay(0.0) for one in prepared]
    storage = [one.storage for one in prepared]
    cuts = layout(replays, storage, sizes)
    streams = [launch_events(one, names, cuts) for one, names in zip(replays, storage, strict=True)]
    stated = _pass(streams, storage, cuts, capacity_bytes, model, cold)
    reads, writes = [[one.read_bytes] for one in stated], [[one.write_bytes] for one in stated]
    varied = ranges and sum(map(len, streams)) <= MAX_EVENTS_TWICE
    if varied:
        variants = [
            _pass(streams, storage, cuts, capacity_bytes * factor, model, cold)
            for factor in (1 - model.capacity_spread, 1 + model.capacity_spread)
        ]
        if model.skew_spread:
            skewed = [one.replay(model.skew_spread) for one in prepared]
            again = [launch_events(one, names, cuts) for one, names in zip(skewed, storage, strict=True)]
            variants.append(_pass(again, storage, cuts, capacity_bytes, model, cold))
        for variant in variants:
            for at, one in enumerate(variant):
                reads[at].append(one.read_bytes)
                writes[at].append(one.write_bytes)
    return Outcome(tuple(stated), tuple(replays), tuple(map(tuple, reads)), tuple(map(tuple, writes)), varied)


def _pass(
    streams: Sequence[Sequence[Event]],
    storage: Sequence[Mapping[str, int]],
    cuts: Sequence[Blocks],
    capacity_bytes: float,
    model: L2Model,
    cold: bool,
) -> list[LaunchMoved]:
    """One run through all launches."""
    shape = CacheShape(capacity_bytes, model.partitions, capacity_bytes * model.dirty_share)
    cache = L2(shape, [blocks.bytes for blocks in cuts])
    found: list[LaunchMoved] = []
    for number, (events, names) in enumerate(zip(streams, storage, strict=True)):
        cache.moved = [Moved() for _ in cuts]
        cache.run(events)
        left, moved, waves = cache.dirty_bytes, cache.moved, by_wave(events, cuts)
        if not cold and number == len(streams) - 1:
            for one, dirty in zip(moved, left, strict=True):
                one.write_bytes += dirty
        called: dict[int, list[str]] = defaultdict(list)
        for name, number in names.items():
            called[number].append(name)
        tensors = tuple(
            _tensor("/".join(called[number]), moved[number], left[number], waves[number])
            for number in sorted(called)
            if moved[number].read_bytes or moved[number].write_bytes or left[number] or waves[number]
        )
        reads, writes = (round(sum(getattr(one, name) for one in moved)) for name in ("read_bytes", "write_bytes"))
        found.append(LaunchMoved(tensors, reads, writes, round(sum(left))))
        if cold:
            cache.forget(write_back=False)
    return found


def _tensor(name: str, moved: Moved, left_dirty: float, waves: float) -> TensorTraffic:
    return TensorTraffic(
        name,
        round(moved.read_bytes),
        round(moved.write_bytes),
        round(moved.first_bytes),
        round(waves),
        {reason: round(value) for reason, value in moved.excess_bytes.items()},
        round(moved.rewritten_bytes),
        round(left_dirty),
        regime(moved.read_bytes, moved.first_bytes, waves) if moved.read_bytes else None,
    )


def by_wave(events: Sequence[Event], cuts: Sequence[Blocks]) -> list[float]:
    """Distinct bytes that each wave reads, summed over waves, by tensor."""
    seen: dict[tuple[int, int], int] = defaultdict(int)
    of: dict[int, int] = {}
    for event in events:
        if event.kind == READ:
            seen[event.wave, event.unit] |= event.left | event.right
            of[event.unit] = event.tensor
    total = [0.0] * len(cuts)
    for (_, unit), mask in seen.items():
        total[of[unit]] += mask.bit_count() * cuts[of[unit]].bytes
    return total
