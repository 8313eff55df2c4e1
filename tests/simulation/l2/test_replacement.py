"""The model of the L2 replays a probe of which lines an H100 replaces.

No constant is fitted to it.
"""

from __future__ import annotations

import json
import random
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from ioaware.simulation.addresses.address_blocks import Blocks
from ioaware.simulation.l2.cache import L2, CacheConfig
from ioaware.simulation.l2.cache_sets import choose_sets
from ioaware.simulation.l2.events import READ, WRITE, Event, Events
from ioaware.simulation.sampling import Sample

MIB = 1 << 20
CAPACITY, WAYS, LINE = 50 * MIB, 16, 8192
"""L2 of an H100 in bytes, its lines per set, and bytes of a tile."""


@cache
def counted() -> dict[tuple[str, int, int], float]:
    """Share of repeated reads that miss, by way, MiB kept and MiB between."""
    text = (files("ioaware") / "recorded" / "l2" / "h100-replacement.json").read_text()
    launches: list[dict[str, Any]] = [one for one in json.loads(text)["launches"] if one["kernel"] == "rounds"]
    found: dict[tuple[str, int, int], float] = {}
    for one in launches:
        kept, between = one["kept_bytes"], one["between_bytes"]
        once = kept + (0 if one["stores"] else between * one["rounds"])
        missed = (one["hbm_read_bytes"] - once) / (kept * (one["rounds"] - 1))
        if one["probe"] in ("kept", "filled"):
            found[one["way"], kept // MIB, between // MIB] = missed
    return found


def replayed(kept: int, between: int, *, turn: bool = False, times: int = 1, stores: bool = False, rounds: int = 6) -> float:
    """Return the share of repeated reads that miss in the model."""
    tiles, others, chance = kept * MIB // LINE, between * MIB // LINE, random.Random(kept)
    layouts = [Blocks(LINE, 1, LINE, 1), Blocks(LINE, 1, LINE, 1, first_line=tiles)]
    sets = choose_sets(layouts, [tiles * LINE, rounds * others * LINE], Sample(), CAPACITY, WAYS)
    found = L2(CacheConfig(CAPACITY, 2, sets=sets.count), [LINE, LINE], sets.of)
    side = [chance.randrange(2) for _ in range(tiles)]

    def event(line: int, kind: int, tensor: int, partition: int) -> Event:
        return Event(line, 1 - partition, partition, kind, tensor, 0, 0)

    for number in range(rounds):
        side = [chance.randrange(2) for _ in range(tiles)] if turn else side
        for _ in range(times):
            found.run(Events.of(event(tile, READ, 0, side[tile]) for tile in range(tiles)))
        start = tiles + number * others
        kind = WRITE if stores else READ
        found.run(Events.of(event(line, kind, 1, chance.randrange(2)) for line in range(start, start + others)))
    return (found.traffic[0].read_bytes / (tiles * LINE) - 1) / (rounds - 1)


WAY: dict[str, dict[str, Any]] = {
    "same programs": {},
    "other programs": {"turn": True},
    "four times in a row": {"times": 4},
    "stores between": {"stores": True},
    "stores between, other programs": {"stores": True, "turn": True},
}
POINTS = [(way, kept, between) for way in WAY for kept, between in ((4, 16), (4, 28), (4, 32), (16, 8), (16, 16), (16, 24))]


@pytest.mark.parametrize(("way", "kept", "between"), POINTS)
def test_the_model_replaces_what_an_h100_replaces(way: str, kept: int, between: int) -> None:
    """Reads between agree within 4 points in a hundred, stores within 12."""
    off = 0.12 if "stores" in way else 0.04
    assert abs(replayed(kept, between, **WAY[way]) - counted()[way, kept, between]) < off
