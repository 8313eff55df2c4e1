"""Leave out of a launch's accesses what the L1s serve, before they go to the L2.

The L2 does not see a hit, so that its line becomes older there: a line that an SM reads for long from its L1 may be gone from
the L2 when the L1 loses it. Which of the repeated reads hit is not known line by line, since few SMs are replayed: a hash of
program and address chooses as many as hit. The first read of a program is never left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.addresses.row_keys import first_of_groups, packed
from ioaware.simulation.l1.l1_replay import L1Replay
from ioaware.simulation.launch_replay import Replay
from ioaware.simulation.schedule import mixed
from ioaware.simulation.streams import ReferenceStream

LEAST_SHARE = 0.01
"""Accesses that hit less often stay as they are."""


def behind_l1(launch: Replay, l1: L1Replay | None) -> Replay:
    """Return the launch with the accesses that reach the L2."""
    if l1 is None or not l1.accessed_bytes:
        return launch
    streams = list(launch.streams)
    for number, (accessed, served) in enumerate(zip(l1.accessed_bytes, l1.served_bytes, strict=True)):
        if accessed and served >= LEAST_SHARE * accessed:
            streams[number] = _missing(streams[number], served / accessed)
    return replace(launch, streams=tuple(streams))


def _missing(streams: Sequence[ReferenceStream], hits: float) -> tuple[ReferenceStream, ...]:
    """Return the streams of an instruction without so large a share of its accesses."""
    repeated = [_repeated(one) for one in streams]
    total, again = sum(one.size for one in repeated), sum(int(np.count_nonzero(one)) for one in repeated)
    share = min(1.0, hits * total / max(1, again))
    return tuple(_of_rows(one, ~which | ~_chosen(one, share)) for one, which in zip(streams, repeated, strict=True))


def _repeated(one: ReferenceStream) -> NDArray[np.bool_]:
    """Return which rows access again what an earlier row of their program accessed."""
    keys = packed([one.program, one.base] if one.count is None else [one.program, one.base, one.count])
    order = np.lexsort((one.time, *keys[::-1]))
    found = np.zeros(one.base.size, dtype=np.bool_)
    found[order] = ~first_of_groups(keys, order)
    return found


def _chosen(one: ReferenceStream, share: float) -> NDArray[np.bool_]:
    """Return which rows a hash chooses, so large a share of them."""
    place = mixed(one.base + np.arange(one.base.size, dtype=np.int64)) >> np.uint64(11)
    return place < share * float(1 << 53)


def _of_rows(one: ReferenceStream, rows: NDArray[np.bool_]) -> ReferenceStream:
    return replace(
        one,
        base=one.base[rows],
        time=one.time[rows],
        program=one.program[rows],
        partitions=one.partitions[rows],
        count=None if one.count is None else one.count[rows],
        work=None if one.work is None else one.work[rows],
    )
