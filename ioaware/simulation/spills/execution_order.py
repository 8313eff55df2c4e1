"""Put the memory instructions of a warp in the order of their execution."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.spills.machine_trace import MachineTrace, MemoryInstruction

Numbers = NDArray[np.int64]


def times_run(one: MemoryInstruction, counts: Sequence[float]) -> float:
    """Return how often a program executes an instruction; `counts` are by region."""
    return 1.0 if one.region is None else counts[one.region]


def execution_order(trace: MachineTrace, counts: Sequence[float], most: int) -> Numbers:
    """Return the numbers of instructions in order of execution, at most `most`.

    Where there are more, all loops run fewer times.
    """
    inside: dict[int | None, list[tuple[bool, int]]] = {}
    placed: set[int] = set()
    for number, one in enumerate(trace.instructions):
        region = one.region
        inside.setdefault(region, []).append((False, number))
        while region is not None and region not in placed:
            placed.add(region)
            parent = trace.regions[region].parent
            inside.setdefault(parent, []).append((True, region))
            region = parent
    total = sum(times_run(one, counts) for one in trace.instructions)
    share = min(1.0, most / max(total, 1.0))

    def executions(region: int | None, often: float, number_of: int) -> Numbers:
        """Return so many executions of a region that runs `often` times in all."""
        items = inside.get(region, [])
        alike = all(not is_region or counts[number] >= often for is_region, number in items)
        parts = [np.zeros(0, dtype=np.int64)]
        for at in range(1 if alike else number_of):
            for is_region, number in items:
                each = counts[number] / often if is_region else 1.0
                due = max(1, round(each * share)) if each >= 1 else floor((at + 1) * each + 0.5) - floor(at * each + 0.5)
                if is_region and due:
                    parts.append(executions(number, counts[number], due))
                elif not is_region:
                    parts.append(np.array([number], dtype=np.int64))
        return np.tile(np.concatenate(parts), number_of if alike else 1)

    return executions(None, 1.0, 1)
