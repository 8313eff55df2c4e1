"""Decide whether two launches run the same programs in another order.

What each program accesses decides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget

from ioaware.compilation.launch_traffic import launch_touches
from ioaware.compilation.launches import CapturedLaunch
from ioaware.simulation.l2.events import READ
from ioaware.simulation.launch_replay import Replay, replay
from ioaware.simulation.streams import ReferenceStream

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Work:
    """Sorted digests of what programs and tiles of a launch access."""

    programs: Words
    tiles: Words


def work_of(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Work:
    """Return the work of a launch.

    Raises `ValueError` where data decide an address, a mask or a loop.
    """
    found = _replayed(launch, values, gpu)
    return Work(np.sort(program_digests(found)), np.sort(tile_digests(found)))


def same_work(one: Work, other: Work) -> bool:
    """Return whether the programs of two launches access the same, in any order.

    They are compared program by program. Persistent programs, which take one tile after another, may take other tiles: then
    tiles are compared, each with what is loaded since the store before.
    """
    return np.array_equal(one.programs, other.programs) or np.array_equal(one.tiles, other.tiles)


def program_digests(found: Replay) -> Words:
    """Return a digest of each program's accesses.

    It covers addresses and shapes, in any order within an instruction.
    """
    digests = np.zeros(found.durations.size, dtype=np.uint64)
    for stream, _, words in _words(found):
        np.add.at(digests, stream.program, words)
    return digests


def tile_digests(found: Replay) -> Words:
    """Return a digest of the accesses from each store of a program to its next one.

    The store's own belong to it.
    """
    rows = [(stream.program, stream.time, np.full(stream.time.size, store), words) for stream, store, words in _words(found)]
    program, time, store, words = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.lexsort((store, time, program))  # loads at the time of a store come before it
    program, store = program[order], store[order]
    new = np.ones(order.size, dtype=bool)
    new[1:] = (program[1:] != program[:-1]) | (store[:-1] & ~store[1:])
    tile = np.cumsum(new) - 1
    digests = np.zeros(int(tile[-1]) + 1 if tile.size else 0, dtype=np.uint64)
    np.add.at(digests, tile, words[order])
    return digests


def _replayed(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Replay:
    touches, programs = launch_touches(launch, values, gpu)
    known = frozenset(touch.target.argument for touch in touches)
    found = replay(launch.name, touches, programs, 1, known=known, whole_sectors=False)  # one after another: no two are merged
    if found.data_dependent:
        raise ValueError(found.data_dependent[0].why)
    return found


def _words(found: Replay) -> Iterator[tuple[ReferenceStream, bool, Words]]:
    """Yield each stream, whether it stores, and a word for each row.

    A word stands for the address and the shape of what a row accesses.
    """
    for access, streams in enumerate(found.streams):
        for stream in streams:
            count = np.ones(stream.base.size, dtype=np.int64) if stream.count is None else stream.count
            shape = hash((access, stream.parts, stream.stride)) & 0x7FFFFFFFFFFFFFFF
            words = _mixed(_mixed(stream.base.astype(np.uint64) ^ np.uint64(shape)) + count.astype(np.uint64))
            yield stream, found.kinds[access] != READ, words


def _mixed(words: Words) -> Words:
    """Return splitmix64 of each word.

    Sums of mixed words collide as rarely as random numbers.
    """
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
