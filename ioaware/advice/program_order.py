"""Decide whether two launches run the same programs in another order.

What each program accesses decides it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget

from ioaware.compilation.launch_traffic import launch_touches
from ioaware.compilation.launches import CapturedLaunch
from ioaware.simulation.launch_replay import replay

Words = NDArray[np.uint64]


def same_programs(one: CapturedLaunch, other: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> bool:
    """Return whether the programs of two launches access the same, in any order.

    They are compared program by program.

    Raises `ValueError` where data decide an address, a mask or a loop.
    """
    first, second = program_digests(one, values, gpu), program_digests(other, values, gpu)
    return first.shape == second.shape and bool((np.sort(first) == np.sort(second)).all())


def program_digests(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Words:
    """Return a digest of each program's accesses.

    It covers addresses and shapes, in any order within an instruction.
    """
    touches, programs = launch_touches(launch, values, gpu)
    known = frozenset(touch.target.argument for touch in touches)
    found = replay(launch.name, touches, programs, 1, known=known)  # one after another: no two are merged
    if found.data_dependent:
        raise ValueError(found.data_dependent[0].why)
    digests = np.zeros(found.durations.size, dtype=np.uint64)
    for access, streams in enumerate(found.streams):
        for stream in streams:
            count = np.ones(stream.base.size, dtype=np.int64) if stream.count is None else stream.count
            shape = hash((access, stream.parts, stream.stride)) & 0x7FFFFFFFFFFFFFFF
            words = _mixed(_mixed(stream.base.astype(np.uint64) ^ np.uint64(shape)) + count.astype(np.uint64))
            np.add.at(digests, stream.program, words)
    return digests


def _mixed(words: Words) -> Words:
    """Return splitmix64 of each word.

    Sums of mixed words collide as rarely as random numbers.
    """
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
