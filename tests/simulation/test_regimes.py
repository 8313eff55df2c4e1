"""Closed forms of cache regimes against the cache model, and the names of regimes."""

from __future__ import annotations

import pytest

from ioaware.simulation.l2.cache import L2, CacheConfig
from ioaware.simulation.l2.events import READ, Event, Events
from ioaware.simulation.regimes import live_heads, miss_share, regime, sweep_bytes, wave_head_pairs

TILES = 16


def replay_reads(heads: int, rows: int, at_once: int, capacity: float, *, sawtooth: bool = False) -> float:
    """Return the HBM reads of K and V in tiles, for waves of programs.

    The programs are in linear order and sweep the tiles of their heads in lock step.
    """
    events: list[Event] = []
    for wave, first in enumerate(range(0, heads * rows, at_once)):
        live = sorted({program // rows for program in range(first, min(first + at_once, heads * rows))})
        order = range(TILES)[::-1] if sawtooth and wave % 2 else range(TILES)
        events += [Event(head * TILES + tile, 1, 0, READ, 0, wave, first) for tile in order for head in live]
    cache = L2(CacheConfig(capacity, 1), [1.0])
    cache.run(Events.of(events))
    return cache.traffic[0].read_bytes


@pytest.mark.parametrize(("heads", "rows", "at_once"), [(1, 64, 16), (4, 16, 8), (3, 10, 30), (2, 64, 24), (5, 7, 3)])
def test_incidences_are_pairs_of_wave_and_head(heads: int, rows: int, at_once: int) -> None:
    pairs = {(program // at_once, program // rows) for program in range(heads * rows)}
    assert wave_head_pairs(heads, rows, at_once) == len(pairs)
    waves = -(-heads * rows // at_once)
    assert max(heads, waves) <= wave_head_pairs(heads, rows, at_once) <= heads + waves - 1


@pytest.mark.parametrize(("heads", "rows", "at_once"), [(1, 64, 16), (4, 16, 8), (2, 64, 32)])
def test_lru_thrashes_where_a_sweep_is_larger_than_the_cache(heads: int, rows: int, at_once: int) -> None:
    assert replay_reads(heads, rows, at_once, TILES - 1) == sweep_bytes(heads, rows, at_once, TILES, TILES - 1, "lru")
    assert replay_reads(heads, rows, at_once, 3 * TILES) == sweep_bytes(heads, rows, at_once, TILES, 3 * TILES, "lru")


def test_a_sawtooth_finds_the_end_of_the_sweep_before() -> None:
    """One head: every later sweep misses all but the cache's size."""
    capacity = 10
    found = replay_reads(1, 64, 16, capacity, sawtooth=True)
    assert found == TILES + 3 * (TILES - capacity)
    assert found < replay_reads(1, 64, 16, capacity)


def test_random_replacement_lies_between_compulsory_and_lru() -> None:
    assert miss_share(2.0) == pytest.approx(0.797, abs=1e-3)
    assert miss_share(0.5) == pytest.approx(0, abs=1e-6)
    plain, random = (sweep_bytes(4, 64, 16, 100, 60, policy) for policy in ("lru", "random"))
    assert 400 < random < plain


def test_live_heads() -> None:
    assert live_heads(2, 64, 16) == 1.25
    assert live_heads(1, 4, 16) == 1


@pytest.mark.parametrize(
    ("read", "distinct", "waves", "name"),
    [(100, 100, 400, "compulsory"), (250, 100, 400, "between"), (400, 100, 400, "thrashing"), (900, 100, 400, "leaking")],
)
def test_names_of_regimes(read: float, distinct: float, waves: float, name: str) -> None:
    assert regime(read, distinct, waves) == name
