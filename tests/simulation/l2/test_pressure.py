"""Memory that is swept again and again while other memory is read or stored, as an H200 counted it.

No constant is fitted to it.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from ioaware.simulation.addresses.address_blocks import Blocks
from ioaware.simulation.l2.cache import L2, CacheConfig
from ioaware.simulation.l2.cache_sets import choose_sets
from ioaware.simulation.l2.events import READ, WRITE, Event, Events
from ioaware.simulation.sampling import Sample

MIB, CAPACITY, WAYS, TILE = 1 << 20, 62_914_560, 16, 8192
DIRTY_BYTES = 29_600_000
SLOW = 400
"""Steps of computation beside which HBM is far from its ceiling."""


@cache
def counted(stores: bool, ratio: int, kept: int, steps: int) -> float:
    """Return the share of repeated reads that miss, of programs of 16 warps."""
    text = (files("ioaware") / "recorded" / "l2" / "h200-pressure.json").read_text()
    launches: list[dict[str, Any]] = json.loads(text)["launches"]
    (one,) = [
        one
        for one in launches
        if (one["stores"], one["ratio"], one["kept_bytes"], one["steps"], one["warps"])
        == (stores, ratio, kept * MIB, steps, 16)
    ]
    own_bytes = 0 if stores else one["programs"] * ratio * TILE
    return (one["hbm_read_bytes"] - own_bytes - kept * MIB) / (one["programs"] * TILE - kept * MIB)


def replayed(stores: bool, ratio: int, kept: int, sweeps: int = 8) -> float:
    """Return the share in the model, of programs one after the other."""
    tiles = kept * MIB // TILE
    layouts = [Blocks(TILE, 1, TILE, 1), Blocks(TILE, 1, TILE, 1, first_line=tiles)]
    sets = choose_sets(layouts, [tiles * TILE, sweeps * tiles * ratio * TILE], Sample(), CAPACITY, WAYS)
    found = L2(CacheConfig(CAPACITY, 2, dirty_bytes=DIRTY_BYTES, sets=sets.count), [TILE, TILE], sets.of)
    events: list[Event] = []
    for program in range(sweeps * tiles):
        side = program * 0x9E3779B9 >> 16 & 1
        events.append(Event(program % tiles, 1 - side, side, READ, 0, 0, program))
        own = range(tiles + program * ratio, tiles + (program + 1) * ratio)
        events += [Event(line, 1 - side, side, WRITE if stores else READ, 1, 0, program) for line in own]
    found.run(Events.of(events))
    return (found.traffic[0].read_bytes / (tiles * TILE) - 1) / (sweeps - 1)


READ_BESIDE = [(8, 1), (4, 2), (8, 2), (2, 4), (4, 4), (8, 4), (1, 8), (2, 8), (1, 16), (2, 16)]


@pytest.mark.parametrize(("ratio", "kept"), READ_BESIDE)
def test_memory_beside_reads_misses_as_often_as_counted(ratio: int, kept: int) -> None:
    assert replayed(False, ratio, kept) == pytest.approx(counted(False, ratio, kept, 0), abs=0.07)


def test_stores_displace_more_than_reads_most_where_hbm_is_at_its_ceiling() -> None:
    """The model lets them displace as much as reads do."""
    for ratio, kept in READ_BESIDE[1:]:
        reads, slow, fast = (
            counted(*one) for one in ((False, ratio, kept, SLOW), (True, ratio, kept, SLOW), (True, ratio, kept, 0))
        )
        assert reads < slow < fast + 0.01, (ratio, kept)
    assert replayed(True, 1, 16) == pytest.approx(replayed(False, 1, 16), abs=0.02)
