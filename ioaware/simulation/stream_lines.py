"""Find the lines and blocks that a reference stream accesses, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ioaware.simulation.addresses.address_blocks import Blocks, Masks
from ioaware.simulation.addresses.taken_lines import Taken
from ioaware.simulation.streams import Numbers, ReferenceStream, Times, unrolled


@dataclass(frozen=True, slots=True)
class LineTouches:
    """Accesses to lines before they are merged, one array per column."""

    time: Times
    line: Numbers
    mask: Masks
    partitions: Numbers
    program: Numbers


def line_touches(found: ReferenceStream, blocks: Blocks, taken: Taken | None = None) -> Iterator[LineTouches]:
    """Yield the lines and blocks that these executions access, or the `taken` lines."""
    if found.count is not None and blocks.plain:
        yield _runs(found, found.count, blocks, taken)
        return
    if found.count is not None:
        found = unrolled(found, found.count)
    for part in found.parts:
        which, line, mask = blocks.lines(found.base, part, taken)
        if which.size:
            yield LineTouches(found.time[which], line, mask, found.partitions[which], found.program[which])


def _runs(found: ReferenceStream, count: Numbers, blocks: Blocks, taken: Taken | None) -> LineTouches:
    """Return the lines of runs of tiles, each once.

    The time is that when the run reaches the line.
    """
    tile = abs(found.stride)
    start = found.base + found.parts[0].offset
    begin = start if found.stride > 0 else start - tile * (count - 1)
    row, line, mask = blocks.lines_of_runs(begin, tile * count, taken)
    edge = (line - blocks.first_line) * blocks.line_bytes
    if found.stride > 0:
        iteration = np.maximum(edge - start[row], 0) // tile
    else:
        iteration = np.maximum(start[row] + tile - edge - blocks.line_bytes, 0) // tile
    return LineTouches(found.times(row, iteration), line, mask, found.partitions[row], found.program[row])
