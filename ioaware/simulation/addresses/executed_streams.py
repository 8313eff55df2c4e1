"""Turn the accesses of an executed launch into reference streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.compilation.execution.executed_accesses import Runs
from ioaware.simulation.addresses.address_blocks import Rectangle
from ioaware.simulation.schedule import Schedule
from ioaware.simulation.streams import ReferenceStream, Times


@dataclass(frozen=True)
class ExecutedLaunch:
    """Accesses of an executed launch.

    They are their numbers in the kernel, and their runs of sectors.

    `durations` are the bytes that each program accesses.
    """

    numbers: tuple[int, ...]
    runs: tuple[Runs, ...]
    durations: Times

    def streams(self, access: int, programs: Schedule, kept: NDArray[np.bool_] | None = None) -> Iterator[ReferenceStream]:
        """Yield the runs of an access by size, of the `kept` programs."""
        one = self.runs[access]
        chosen = np.ones(one.program.size, bool) if kept is None else kept[one.program]
        time, partitions = programs.times(one.program, one.time), programs.partitions(one.program)
        for bit in reversed(range(int(one.size.max(initial=0)).bit_length())):
            piece = chosen & (one.size >> bit & 1 == 1)
            if piece.any():
                begin = (one.begin + (one.size >> (bit + 1) << (bit + 1)))[piece]
                part = Rectangle(0, 1, 1 << bit, 1 << bit)
                yield ReferenceStream(begin, time[piece], one.program[piece], partitions[piece], (part,))
