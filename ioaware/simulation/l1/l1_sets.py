"""Replay the accesses of an SM through the sets of its L1, as machine code.

A set has six lines in an order, and the last one leaves. A hit moves a line to the first place. Up to three lines that hit keep
the first places: a line that comes takes the place behind them, so that lines read once leave before lines read again. This is
a segmented least recently used set, half of it protected. A line of which several instructions touch parts comes as one that
hit, and so does one loaded with `evict_last`. One loaded with `evict_first` goes to the last place. The last load of a spilled
register brings no line, and one that hits is kept no longer. A sector whose parts are written apart is no longer valid. A piece
of memory as large as one way fills all sets evenly; how the next piece lies on them is taken as chance.

Source of ways and halves: rows that programs of an SM read two and four times, in `ioaware/recorded/l1/h200-rows.json`, and
slices that they read again, in `h200-l1.json`; of evictions, rows read with each, in `h200-evictions.json`; of shared lines and
last loads, words read again in `h200-local.json`; of stores, rows read again in `h200-stores.json`. NVIDIA publishes none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ioaware.simulation.addresses.address_blocks import Masks, Numbers
from ioaware.simulation.addresses.bit_count import bit_count
from ioaware.simulation.compiled import compiled, inlined
from ioaware.simulation.l1.l1_shape import LINE_BYTES, LINE_SECTORS
from ioaware.simulation.l2.cache_sets import MIXERS

WAYS, PROTECTED = 6, 3
STORED, NORMAL, FIRST, LAST, LAST_USE, AFTER_WAIT, WRITTEN_APART = range(7)
"""Uses of a line.

They are a store, loads by their eviction, and the last load of a spilled register. Then come another touch of a load after a
wait, and the end of a store whose instructions wrote parts of sectors apart.
"""
EMPTY = NOWHERE = -1
WHOLE = 256
"""All lines of an access."""
NOTHING, LINE_OF_SECTORS, SECTORS_OF_LINE = np.uint64(0), np.uint64((1 << LINE_SECTORS) - 1), np.uint64(LINE_SECTORS)


def add_served_sectors(
    served: Numbers,
    capacity_bytes: int,
    chunks: Numbers,
    lines: Numbers,
    masks: Masks,
    number: Numbers,
    uses: NDArray[np.int8],
    again: NDArray[np.int16],
) -> None:
    """Add the sectors of loads that hit in an L1 to those of their instructions.

    An access of instruction `number` is to a chunk of so many `lines`, with a mask of its sectors and a use. Of the lines
    `again`, of `WHOLE`, hit at once, since another instruction touches them, too. After a wait `again` is the share of lines
    that are touched, others than these, and the sectors that miss are added. Of sectors written apart it is the share that is
    no longer valid.
    """
    sets = capacity_bytes // (LINE_BYTES * WAYS)
    if sets:
        held, valid = np.full(sets * WAYS, EMPTY, dtype=np.int64), np.zeros(sets * WAYS, dtype=np.uint64)
        kept = np.zeros(sets, dtype=np.int64)
        _replay(chunks, lines, masks, number, uses, again, sets, held, valid, kept, served)


@compiled
def _replay(
    chunks: Numbers,
    lines: Numbers,
    masks: Masks,
    number: Numbers,
    uses: NDArray[np.int8],
    again: NDArray[np.int16],
    sets: int,
    held: Numbers,
    valid: Masks,
    kept: Numbers,
    served: Numbers,
) -> None:
    """Replay accesses.

    `held` and `valid` are the lines of each set in order, and their sectors; `kept` is how many of them have hit, at most
    `PROTECTED`.
    """
    for at in range(chunks.size):
        line, mask = chunks[at] * lines[at], masks[at]
        while mask != NOTHING:
            sectors, use, chance = mask & LINE_OF_SECTORS, uses[at], _mixed(line) % WHOLE
            if use >= AFTER_WAIT and chance < WHOLE - again[at]:
                sectors = NOTHING
            if sectors != NOTHING:
                hits = use in (STORED, NORMAL) and chance < again[at]
                place = _take(held, valid, kept, _set_of(line, sets), line, LAST if hits else use)
                if place != NOWHERE and use == WRITTEN_APART:
                    valid[place] &= ~sectors
                elif place != NOWHERE:
                    if use == AFTER_WAIT:
                        served[number[at]] += bit_count(sectors & ~valid[place])
                    elif use != STORED:
                        served[number[at]] += bit_count(valid[place] & sectors)
                    valid[place] |= sectors
            line, mask = line + 1, mask >> SECTORS_OF_LINE


@inlined
def _take(held: Numbers, valid: Masks, kept: Numbers, number: int, line: int, use: int) -> int:
    """Move a line to its place in a set. It keeps the sectors that it had.

    Return the place; `NOWHERE` for the last use of a line that is not in the set. A line written apart stays where it is.
    """
    first = number * WAYS
    found = first
    while found < first + WAYS - 1 and held[found] != line:
        found += 1
    hit = held[found] == line
    known, place = valid[found] if hit else NOTHING, first + kept[number]
    if use == LAST_USE and not hit:
        return NOWHERE
    if use == WRITTEN_APART:
        return found if hit else NOWHERE
    if hit and use in (FIRST, LAST_USE):
        if found < place:
            kept[number] -= 1
        place = first + kept[number] if use == LAST_USE else _last(held, first)
    elif use == FIRST:
        place = min(_last(held, first) + 1, first + WAYS - 1)
    elif hit or use == LAST:
        if found >= place:
            kept[number] = min(kept[number] + 1, PROTECTED)
        place = first
    for way in range(found, place):
        held[way], valid[way] = held[way + 1], valid[way + 1]
    for way in range(found, place, -1):
        held[way], valid[way] = held[way - 1], valid[way - 1]
    held[place], valid[place] = line, known
    return place


@inlined
def _last(held: Numbers, first: int) -> int:
    """Return the last place with a line, of the set that begins at `first`.

    It is the one before the set if all are empty.
    """
    place = first + WAYS - 1
    while place >= first and held[place] == EMPTY:
        place -= 1
    return place


@inlined
def _set_of(line: int, sets: int) -> int:
    """Return the set of a line.

    Memory that is so many lines long fills all sets, from one that a hash chooses.
    """
    piece = line // sets
    return (line - piece * sets + _mixed(piece)) % sets


@inlined
def _mixed(number: int) -> int:
    """Return a hash of 31 bits."""
    mixed = np.uint64(number + 1) * MIXERS[0]
    mixed = (mixed ^ (mixed >> np.uint64(31))) * MIXERS[1]
    return int(mixed >> np.uint64(33))
