"""Replay the launches of a target in order through one L2.

There is one nominal replay, and one for each uncertain quantity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ioaware.machine.model import L2Model
from ioaware.simulation.address_blocks import Blocks
from ioaware.simulation.cache import L2, READ, CacheConfig, Event, HbmTraffic
from ioaware.simulation.launch_replay import Replay, choose_layouts, launch_events
from ioaware.simulation.regimes import regime
from ioaware.simulation.simulation_result import TensorTraffic

MAX_EVENTS_TWICE = 400_000
"""Launches with more events are simulated without variants, to bound the run time."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Launch before its replay.

    `replay` makes it for a given skew; `storage` numbers the memory of its arguments.
    """

    replay: Callable[[float], Replay]
    storage: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LaunchTraffic:
    """HBM bytes of one launch, by tensor and in total."""

    tensors: tuple[TensorTraffic, ...]
    read_bytes: int
    write_bytes: int
    left_dirty_bytes: int


@dataclass(frozen=True, slots=True)
class SequenceResult:
    """All launches as simulated nominally, and under every variant.

    The variants give the HBM reads and writes of each launch.
    """

    launches: tuple[LaunchTraffic, ...]
    replays: tuple[Replay, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    with_ranges: bool


def run(
    plans: Sequence[LaunchPlan], sizes: Sequence[int], capacity_bytes: int, model: L2Model, *, cold: bool, ranges: bool = True
) -> SequenceResult:
    """Replay launches on storages of these sizes in bytes; `ranges` adds the variants.

    `cold` empties the L2 before each launch and does not count what a launch leaves dirty. Otherwise all lines that are dirty
    after the last launch count as its writes.
    """
    replays = [one.replay(0.0) for one in plans]
    storage = [one.storage for one in plans]
    layouts = choose_layouts(replays, storage, sizes, capacity_bytes)
    streams = [launch_events(one, names, layouts) for one, names in zip(replays, storage, strict=True)]
    nominal = _replay_all(streams, storage, layouts, capacity_bytes, model, cold)
    reads, writes = [[one.read_bytes] for one in nominal], [[one.write_bytes] for one in nominal]
    with_ranges = ranges and sum(map(len, streams)) <= MAX_EVENTS_TWICE
    if with_ranges:
        variants = [
            _replay_all(streams, storage, layouts, capacity_bytes * factor, model, cold)
            for factor in (1 - model.capacity_spread, 1 + model.capacity_spread)
        ]
        if model.skew_spread:
            skewed = [one.replay(model.skew_spread) for one in plans]
            again = [launch_events(one, names, layouts) for one, names in zip(skewed, storage, strict=True)]
            variants.append(_replay_all(again, storage, layouts, capacity_bytes, model, cold))
        for variant in variants:
            for at, one in enumerate(variant):
                reads[at].append(one.read_bytes)
                writes[at].append(one.write_bytes)
    return SequenceResult(tuple(nominal), tuple(replays), tuple(map(tuple, reads)), tuple(map(tuple, writes)), with_ranges)


def _replay_all(
    streams: Sequence[Sequence[Event]],
    storage: Sequence[Mapping[str, int]],
    layouts: Sequence[Blocks],
    capacity_bytes: float,
    model: L2Model,
    cold: bool,
) -> list[LaunchTraffic]:
    """Replay all launches once."""
    shape = CacheConfig(capacity_bytes, model.partitions, capacity_bytes * model.dirty_share)
    cache = L2(shape, [blocks.bytes for blocks in layouts])
    found: list[LaunchTraffic] = []
    for number, (events, names) in enumerate(zip(streams, storage, strict=True)):
        cache.traffic = [HbmTraffic() for _ in layouts]
        cache.run(events)
        left, traffic, waves = cache.dirty_bytes, cache.traffic, distinct_bytes_by_wave(events, layouts)
        if not cold and number == len(streams) - 1:
            for one, dirty in zip(traffic, left, strict=True):
                one.write_bytes += dirty
        arguments: dict[int, list[str]] = defaultdict(list)
        for name, number in names.items():
            arguments[number].append(name)
        tensors = tuple(
            _tensor("/".join(arguments[number]), traffic[number], left[number], waves[number])
            for number in sorted(arguments)
            if traffic[number].read_bytes or traffic[number].write_bytes or left[number] or waves[number]
        )
        reads, writes = (round(sum(getattr(one, name) for one in traffic)) for name in ("read_bytes", "write_bytes"))
        found.append(LaunchTraffic(tensors, reads, writes, round(sum(left))))
        if cold:
            cache.flush(write_back=False)
    return found


def _tensor(name: str, traffic: HbmTraffic, left_dirty: float, waves: float) -> TensorTraffic:
    return TensorTraffic(
        name,
        round(traffic.read_bytes),
        round(traffic.write_bytes),
        round(traffic.first_bytes),
        round(waves),
        {reason: round(value) for reason, value in traffic.excess_bytes.items()},
        round(traffic.rewritten_bytes),
        round(left_dirty),
        regime(traffic.read_bytes, traffic.first_bytes, waves) if traffic.read_bytes else None,
    )


def distinct_bytes_by_wave(events: Sequence[Event], layouts: Sequence[Blocks]) -> list[float]:
    """Return the distinct bytes that each wave reads, summed over waves, by tensor."""
    seen: dict[tuple[int, int], int] = defaultdict(int)
    of: dict[int, int] = {}
    for event in events:
        if event.kind == READ:
            seen[event.wave, event.line] |= event.left | event.right
            of[event.line] = event.tensor
    total = [0.0] * len(layouts)
    for (_, line), mask in seen.items():
        total[of[line]] += mask.bit_count() * layouts[of[line]].bytes
    return total
