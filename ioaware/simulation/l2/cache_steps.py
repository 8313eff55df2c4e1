"""Replay events through the state of a cache, as machine code."""

from __future__ import annotations

import numpy as np

from ioaware.simulation.addresses.bit_count import bit_count
from ioaware.simulation.compiled import compiled, inlined
from ioaware.simulation.l2.cache_state import (
    DIRTY,
    ENTRIES,
    EXCESS_BYTES,
    FIRST,
    FIRST_BYTES,
    LAST,
    LAST_PROGRAM,
    LAST_WAVE,
    MOST_SETS,
    NEWER,
    NONE,
    OLDER,
    PLACE,
    READ_BEFORE,
    READ_BYTES,
    RESIDENT,
    REWRITTEN_BYTES,
    TENSOR,
    WRITE_BYTES,
    WRITTEN_BEFORE,
    Links,
    Numbers,
    Shape,
    State,
)
from ioaware.simulation.l2.events import ATOMIC, READ, Events

REMOTE_COPY = 2
NO_BLOCKS = np.uint64(0)
WAVE, CAPACITY, SKEW = 0, 1, 2
"""Reasons why a block is read again, as columns after `EXCESS_BYTES`."""


@compiled
def replay(state: State, shape: Shape, events: Events, numbers: Numbers) -> None:
    """Replay events in order; `numbers` are those of their lines in `state`."""
    for at in range(events.line.size):
        line, left, right = int(numbers[int(events.line[at])]), events.left[at], events.right[at]
        kind, tensor, wave, program = events.kind[at], events.tensor[at], events.wave[at], events.program[at]
        if kind != READ:
            _write(state, shape, line, left, right, kind, tensor, wave, program)
        elif shape.partitions == 2:
            _read(state, shape, line, left, right, tensor, wave, program)
        else:
            _read_undivided(state, shape, line, left | right, tensor, wave, program)
        if state.overfull[0] != NONE or state.used[-1] > shape.dirty_bytes:
            _evict(state, shape)
        state.lines[line, LAST_WAVE], state.lines[line, LAST_PROGRAM] = wave, program


@inlined
def _read_undivided(state: State, shape: Shape, line: int, mask: np.uint64, tensor: int, wave: int, program: int) -> None:
    """Look blocks up in the only partition."""
    key = line * ENTRIES
    missing = _look_up(state, shape, key, mask, tensor)
    if missing:
        _count_read(state, key, missing, tensor, wave, program)


@inlined
def _read(
    state: State, shape: Shape, line: int, left: np.uint64, right: np.uint64, tensor: int, wave: int, program: int
) -> None:
    """Look blocks up in the home partition and the reader's own.

    A hit in the copy does not make the line at home more recent.
    """
    for side in range(2):
        mask = right if side else left
        if not mask:
            continue
        home, other = line * ENTRIES + side, line * ENTRIES + 1 - side
        copy = home + REMOTE_COPY
        if mask & ~state.masks[home, RESIDENT]:
            missing = _look_up(state, shape, home, mask, tensor)
            _count_read(state, home, missing, tensor, wave, program)
        elif shape.keep:
            _keep(state, shape, home)
        if mask & ~state.masks[copy, RESIDENT]:
            missing = _look_up(state, shape, copy, mask, tensor)
            if missing & ~state.masks[other, RESIDENT]:
                _count_read(state, other, _look_up(state, shape, other, missing, tensor), tensor, wave, program)
            elif shape.keep:
                _keep(state, shape, other)
        elif shape.keep:
            _keep(state, shape, copy)


@inlined
def _write(
    state: State, shape: Shape, line: int, left: np.uint64, right: np.uint64, kind: int, tensor: int, wave: int, program: int
) -> None:
    """Write blocks at their home; an atomic reads absent blocks first.

    The writer's partition keeps a copy of the other's blocks. A copy that another partition has of them is stale.
    """
    mask = left | right
    for side in range(shape.partitions):
        home = line * ENTRIES + side
        missing = _look_up(state, shape, home, mask, tensor)
        if missing and kind == ATOMIC:
            _count_read(state, home, missing, tensor, wave, program)
        _mark_dirty(state, home, mask, tensor)
        if shape.partitions == 2:
            kept = NO_BLOCKS if kind == ATOMIC else right if side else left
            _invalidate(state, shape, home + REMOTE_COPY, mask & ~kept)
            if kept:
                _look_up(state, shape, home + REMOTE_COPY, kept, tensor)


@inlined
def _look_up(state: State, shape: Shape, key: int, mask: np.uint64, tensor: int) -> np.uint64:
    """Make blocks of an entry the most recently used, inserting absent ones.

    Return the absent ones.
    """
    resident = state.masks[key, RESIDENT]
    missing = mask & ~resident
    number = _set_of(state, shape, key)
    if resident:
        _unlink(state.links, state.ends, number, key)
    _append(state.links, state.ends, number, key)
    if missing:
        state.masks[key, RESIDENT] = resident | mask
        state.used[number] += bit_count(missing) * state.weight[tensor]
        if state.used[number] > shape.set_bytes:
            _note_overfull(state.overfull, number)
    return missing


@inlined
def _keep(state: State, shape: Shape, key: int) -> None:
    """Make an entry the most recently used."""
    number = _set_of(state, shape, key)
    if state.ends[number, LAST] != key:
        _unlink(state.links, state.ends, number, key)
        _append(state.links, state.ends, number, key)


@inlined
def _invalidate(state: State, shape: Shape, key: int, mask: np.uint64) -> None:
    """Remove blocks of an entry that have become stale."""
    gone = state.masks[key, RESIDENT] & mask
    if gone:
        number = _set_of(state, shape, key)
        state.used[number] -= bit_count(gone) * state.weight[state.lines[key // ENTRIES, TENSOR]]
        state.masks[key, RESIDENT] &= ~mask
        if not state.masks[key, RESIDENT]:
            _unlink(state.links, state.ends, number, key)


@inlined
def _mark_dirty(state: State, key: int, mask: np.uint64, tensor: int) -> None:
    """Make blocks dirty, and their entry the last that is written back."""
    before, dirty = state.masks[key, DIRTY], state.used.size - 1
    if before:
        _unlink(state.dirty_links, state.ends, dirty, key)
    _append(state.dirty_links, state.ends, dirty, key)
    state.masks[key, DIRTY] = before | mask
    state.used[dirty] += bit_count(mask & ~before) * state.weight[tensor]


@inlined
def _count_read(state: State, key: int, missing: np.uint64, tensor: int, wave: int, program: int) -> None:
    """Count blocks read from HBM, repeated reads by reason."""
    size, line = state.weight[tensor], key // ENTRIES
    blocks, again = bit_count(missing), bit_count(missing & state.masks[key, READ_BEFORE])
    state.bytes[tensor, READ_BYTES] += blocks * size
    state.bytes[tensor, FIRST_BYTES] += (blocks - again) * size
    state.masks[key, READ_BEFORE] |= missing
    if again:
        before_wave, before_program = state.lines[line, LAST_WAVE], state.lines[line, LAST_PROGRAM]
        if before_program == NONE:  # the event itself, in its other partition
            before_wave, before_program = wave, program
        reason = WAVE if wave > before_wave else CAPACITY if before_program == program else SKEW
        state.bytes[tensor, EXCESS_BYTES + reason] += again * size


@inlined
def _evict(state: State, shape: Shape) -> None:
    """Evict the oldest entries of sets that are too full; limit the dirty ones."""
    for at in range(MOST_SETS):
        number = state.overfull[at]
        while number != NONE and state.used[number] > shape.set_bytes:
            key = state.ends[number, FIRST]
            state.used[number] -= bit_count(state.masks[key, RESIDENT]) * state.weight[state.lines[key // ENTRIES, TENSOR]]
            _unlink(state.links, state.ends, number, key)
            state.masks[key, RESIDENT] = NO_BLOCKS
            if state.masks[key, DIRTY]:
                _write_back(state, key)
        state.overfull[at] = NONE
    while state.used[-1] > shape.dirty_bytes:
        _write_back(state, state.ends[-1, FIRST])


@inlined
def _write_back(state: State, key: int) -> None:
    """Write the dirty blocks of an entry to HBM."""
    dirty, tensor = state.masks[key, DIRTY], state.lines[key // ENTRIES, TENSOR]
    size, before = state.weight[tensor], state.masks[key, WRITTEN_BEFORE]
    state.masks[key, WRITTEN_BEFORE] = before | dirty
    state.bytes[tensor, WRITE_BYTES] += bit_count(dirty) * size
    state.bytes[tensor, REWRITTEN_BYTES] += bit_count(dirty & before) * size
    state.used[-1] -= bit_count(dirty) * size
    state.masks[key, DIRTY] = NO_BLOCKS
    _unlink(state.dirty_links, state.ends, state.used.size - 1, key)


@inlined
def _set_of(state: State, shape: Shape, key: int) -> int:
    return state.lines[key // ENTRIES, PLACE] * shape.apart + (key & (shape.apart - 1))


@inlined
def _note_overfull(overfull: Numbers, number: int) -> None:
    """Note a set once; the sets of a line are two at most."""
    if overfull[0] == NONE:
        overfull[0] = number
    elif overfull[0] != number:
        overfull[1] = number


@inlined
def _append(links: Links, ends: Numbers, number: int, key: int) -> None:
    """Make an entry that is in no list the newest of this one."""
    last = ends[number, LAST]
    links[key, OLDER], links[key, NEWER] = last, NONE
    if last == NONE:
        ends[number, FIRST] = key
    else:
        links[last, NEWER] = key
    ends[number, LAST] = key


@inlined
def _unlink(links: Links, ends: Numbers, number: int, key: int) -> None:
    """Take an entry out of its list."""
    older, newer = links[key, OLDER], links[key, NEWER]
    if older == NONE:
        ends[number, FIRST] = newer
    else:
        links[older, NEWER] = newer
    if newer == NONE:
        ends[number, LAST] = older
    else:
        links[newer, OLDER] = older
