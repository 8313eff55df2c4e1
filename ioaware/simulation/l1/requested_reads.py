"""Count the sectors that the loads of a launch request behind its L1s."""

from __future__ import annotations

from collections import defaultdict

from ioaware.derivation.derived import Derived
from ioaware.simulation.l1.access_bytes import access_bytes
from ioaware.simulation.l1.l1_replay import L1Reads
from ioaware.simulation.launch_replay import Replay
from ioaware.simulation.planned_launch import PlannedLaunch


def requested_reads(one: PlannedLaunch, replayed: Replay, l1: L1Reads | None, derived: Derived, sms: int) -> int | None:
    """Return the sector bytes of loads that go to the L2; None where they are unknown.

    Formulas give them, with what TMA boxes add and what is requested again after waits, less what the L1s serve. Where a
    formula is missing, those of the replay through the L1 are taken. Of a table that fits in an L1 no more is missed than other
    loads can have replaced, least recently used first: all of it once on each SM, and again whenever as many bytes as the L1
    holds have come in between.
    """
    known = one.launch.requested.read_sector_bytes if one.launch.requested else None
    if l1 is None:
        return None if known is None else known + one.boxes.read_bytes
    if known is None:
        through = {number for number in replayed.numbers if one.by_l1[number]}
        others = [access for number, access in enumerate(one.traffic.accesses) if number not in through]
        sizes = [access_bytes(access, derived) for access in others if access.kind == "read"]
        if None in sizes:
            return None
        known = l1.accessed_bytes + sum(one or 0 for one in sizes)
    tables: dict[str, int] = defaultdict(int)
    for access in replayed.data_dependent:
        if (
            access.kind == "read"
            and one.by_l1[access.number]
            and one.storage_bytes.get(access.tensor, one.l1_bytes) < one.l1_bytes
        ):
            tables[access.tensor] += access_bytes(one.traffic.accesses[access.number], derived) or 0
    rounds = 1 + l1.accessed_bytes / (sms * max(1, one.l1_bytes))
    hits = sum(max(0, size - round(rounds * sms * one.storage_bytes[tensor])) for tensor, size in tables.items())
    return max(0, known + one.boxes.read_bytes + l1.again_bytes - l1.served_bytes - hits)
