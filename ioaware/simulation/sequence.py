"""Replay the launches of a target in order through one L2.

There is one nominal replay, and one for each uncertain quantity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ioaware.display.work_deadline import step
from ioaware.machine.model import L2Model
from ioaware.simulation import sampling
from ioaware.simulation.addresses.address_blocks import Blocks
from ioaware.simulation.l2.cache import L2, CacheConfig, HbmTraffic
from ioaware.simulation.l2.cache_sets import choose_sets
from ioaware.simulation.l2.events import READ, Events
from ioaware.simulation.launch_replay import MIN_LINE_BYTES, Replay, choose_layouts, launch_touches
from ioaware.simulation.regimes import regime
from ioaware.simulation.sampling import PILOT, Census, Sample, choose_sample
from ioaware.simulation.simulation_result import TensorTraffic


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Launch before its replay.

    `replay` makes it for a given `skew`, or with `own_clocks`; `storage` numbers the memory of its arguments.
    """

    replay: Callable[..., Replay]
    storage: Mapping[str, int]
    in_step: bool = False
    """Whether its programs are in step, but for the clocks of their SMs."""


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
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    every: int
    """One of so many lines is replayed."""
    drift_refused: str = ""
    """Why a variant in which programs drift apart is left out, if one is."""


def run(
    plans: Sequence[LaunchPlan],
    replays: Sequence[Replay],
    sizes: Sequence[int],
    capacity_bytes: int,
    model: L2Model,
    *,
    cold: bool,
    ranges: bool = True,
) -> SequenceResult:
    """Replay launches on storages of these sizes in bytes; `ranges` adds the variants.

    `replays` are those of the `plans` without skew.

    `cold` empties the L2 before each launch and does not count what a launch leaves dirty. Otherwise all lines that are dirty
    after the last launch count as its writes.
    """
    storage = [one.storage for one in plans]
    layouts = _finest_layouts(replays, storage, sizes, capacity_bytes)
    streams = _sampled_streams(replays, storage, layouts, sizes)
    nominal = _replay_all(streams, storage, capacity_bytes, model, cold)
    variants: list[list[LaunchTraffic]] = []
    refused = ""
    if ranges:
        width = model.capacity_spread
        variants += [_replay_all(streams, storage, capacity_bytes * (1 + at), model, cold) for at in (-width, width)]
    if ranges and model.partitions == 2:
        variants.append(_replay_all(streams, storage, capacity_bytes, model, cold, by_age=True))
    for other in _drifting(plans, replays, model) if ranges else ():
        try:
            drifted = _sampled_streams(other(), storage, layouts, sizes)
        except ValueError as error:  # programs apart have more accesses than those in step
            refused = str(error)
        else:
            variants.append(_replay_all(drifted, storage, capacity_bytes, model, cold))
    every = zip(nominal, *variants, strict=True)
    reads, writes = zip(*(([one.read_bytes for one in each], [one.write_bytes for one in each]) for each in every), strict=True)
    return SequenceResult(tuple(nominal), tuple(map(tuple, reads)), tuple(map(tuple, writes)), streams.sample.every, refused)


@dataclass(frozen=True, slots=True)
class _Streams:
    """Events of each launch at the lines of a sample.

    `waves` is the bytes of each tensor that its waves read, for each launch.
    """

    events: tuple[Events, ...]
    sample: Sample
    waves: tuple[Sequence[float], ...]
    layouts: Sequence[Blocks]
    sizes: Sequence[int]

    def cache(self, capacity_bytes: float, model: L2Model, *, by_age: bool) -> L2:
        """Return an empty cache; `capacity_bytes` are those for all lines."""
        capacity_bytes /= self.sample.every
        sets = choose_sets(self.layouts, self.sizes, self.sample, capacity_bytes, model.ways)
        if not sets.count:  # one set, of which a sweep misses all at once
            capacity_bytes *= model.reach
        shape = CacheConfig(capacity_bytes, model.partitions, capacity_bytes * model.dirty_share, by_age, sets.count)
        return L2(shape, self.sample.block_bytes(self.layouts), sets.of)


def _drifting(
    plans: Sequence[LaunchPlan], replays: Sequence[Replay], model: L2Model
) -> Iterator[Callable[[], Sequence[Replay]]]:
    """Yield what makes the launches with programs that drift apart.

    It may raise `ValueError`: they have too many accesses.
    """
    if model.skew_spread:
        yield lambda: [one.replay(skew=model.skew_spread) for one in plans]
    if any(one.in_step for one in plans):
        yield lambda: [one.replay(own_clocks=True) if one.in_step else each for one, each in zip(plans, replays, strict=True)]


def _finest_layouts(
    replays: Sequence[Replay], storage: Sequence[Mapping[str, int]], sizes: Sequence[int], capacity_bytes: float
) -> list[Blocks]:
    """Return layouts with lines as small as can be replayed all.

    A line leaves as a whole, and a line of many tiles stays as long as any of them is used.
    """
    layouts = choose_layouts(replays, storage, sizes, capacity_bytes)
    census = Census(layouts, sizes)
    pairs = zip(replays, storage, strict=True)
    events = PILOT * sum(launch_touches(one, names, layouts, census.of).count() for one, names in pairs)
    line = max(one.line_bytes for one in layouts)
    while line > MIN_LINE_BYTES and 2 * events <= sampling.MAX_EVENTS:
        line, events = line // 2, 2 * events
    return choose_layouts(replays, storage, sizes, capacity_bytes, line)


def _sampled_streams(
    replays: Sequence[Replay], storage: Sequence[Mapping[str, int]], layouts: Sequence[Blocks], sizes: Sequence[int]
) -> _Streams:
    """Return events of the launches at lines of a sample.

    Launches with skew have more events at a line, for fewer programs are at one place at one time: a sample of their own.
    """
    pairs, census = list(zip(replays, storage, strict=True)), Census(layouts, sizes)
    sample = choose_sample(census, sum(launch_touches(one, names, layouts, census.of).count() for one, names in pairs))
    events = tuple(launch_touches(one, names, layouts, sample.lines).events() for one, names in pairs)
    sizes_of_blocks = sample.block_bytes(layouts)
    return _Streams(events, sample, tuple(distinct_bytes_by_wave(each, sizes_of_blocks) for each in events), layouts, sizes)


def _replay_all(
    streams: _Streams,
    storage: Sequence[Mapping[str, int]],
    capacity_bytes: float,
    model: L2Model,
    cold: bool,
    *,
    by_age: bool = False,
) -> list[LaunchTraffic]:
    """Replay all launches once."""
    step()
    sample, layouts = streams.sample, streams.layouts
    cache = streams.cache(capacity_bytes, model, by_age=by_age)
    found: list[LaunchTraffic] = []
    for number, (events, names, waves) in enumerate(zip(streams.events, storage, streams.waves, strict=True)):
        cache.forget_traffic()
        cache.run(events)
        left, traffic = cache.dirty_bytes, cache.traffic
        if not cold and number == len(streams.events) - 1:
            for one, dirty in zip(traffic, left, strict=True):
                one.write_bytes += dirty
        arguments: dict[int, list[str]] = defaultdict(list)
        for name, number in names.items():
            arguments[number].append(name)
        scales = [sample.scale_of(at) for at in range(len(layouts))]
        tensors = tuple(
            _tensor("/".join(arguments[number]), traffic[number], left[number], waves[number], scales[number])
            for number in sorted(arguments)
            if traffic[number].read_bytes or traffic[number].write_bytes or left[number] or waves[number]
        )
        reads, writes, dirty = (
            round(sum(one * scale for one, scale in zip(each, scales, strict=True)))
            for each in ([one.read_bytes for one in traffic], [one.write_bytes for one in traffic], left)
        )
        found.append(LaunchTraffic(tensors, reads, writes, dirty))
        if cold:
            cache.flush(write_back=False)
    return found


def _tensor(name: str, traffic: HbmTraffic, left_dirty: float, waves: float, scale: float) -> TensorTraffic:
    return TensorTraffic(
        name,
        round(scale * traffic.read_bytes),
        round(scale * traffic.write_bytes),
        round(scale * traffic.first_bytes),
        round(scale * waves),
        {reason: round(scale * value) for reason, value in traffic.excess_bytes.items()},
        round(scale * traffic.rewritten_bytes),
        round(scale * left_dirty),
        regime(traffic.read_bytes, traffic.first_bytes, waves) if traffic.read_bytes else None,
    )


def distinct_bytes_by_wave(events: Events, block_bytes: Sequence[float]) -> list[float]:
    """Return the distinct bytes that each wave reads, summed over waves, by tensor.

    `block_bytes` is the bytes of a block of each tensor.
    """
    reads = np.flatnonzero(events.kind == READ)
    if not reads.size:
        return [0.0] * len(block_bytes)
    order = reads[np.lexsort((events.line[reads], events.wave[reads]))]
    wave, line = events.wave[order], events.line[order]
    first = np.flatnonzero(np.concatenate(([True], (wave[1:] != wave[:-1]) | (line[1:] != line[:-1]))))
    masks = np.bitwise_or.reduceat(events.left[order] | events.right[order], first)
    blocks = np.bincount(events.tensor[order[first]], np.bitwise_count(masks), minlength=len(block_bytes))
    return (blocks * np.array(block_bytes)).tolist()
