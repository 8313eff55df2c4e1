"""Turn the accesses of an executed launch into reference streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ioaware.compilation.execution.executed_accesses import Runs
from ioaware.machine.model import SECTOR_BYTES
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

    def streams(
        self, access: int, programs: Schedule, kept: NDArray[np.bool_] | None = None, least_bytes: int = SECTOR_BYTES
    ) -> Iterator[ReferenceStream]:
        """Yield the runs of an access by size, of the `kept` programs.

        They are whole pieces of `least_bytes`.
        """
        one = self.runs[access]
        first = one.begin // least_bytes * least_bytes
        size = -(-(one.begin + one.size) // least_bytes) * least_bytes - first
        chosen = np.ones(one.program.size, bool) if kept is None else kept[one.program]
        time, partitions = programs.times(one.program, one.time), programs.partitions(one.program)
        for bit in reversed(range(int(size.max(initial=0)).bit_length())):
            piece = chosen & (size >> bit & 1 == 1)
            if piece.any():
                begin = (first + (size >> (bit + 1) << (bit + 1)))[piece]
                part = Rectangle(0, 1, 1 << bit, 1 << bit)
                yield ReferenceStream(begin, time[piece], one.program[piece], partitions[piece], (part,))
