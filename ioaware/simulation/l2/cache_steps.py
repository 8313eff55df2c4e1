"""Replay events through the state of a cache, as machine code."""

from __future__ import annotations

import numpy as np

from ioaware.simulation.compiled import compiled
from ioaware.simulation.l2.cache_state import (
    ENTRIES,
    EXCESS_BYTES,
    FIRST,
    FIRST_BYTES,
    LAST,
    NONE,
    READ_BYTES,
    REWRITTEN_BYTES,
    WRITE_BYTES,
    Shape,
    State,
)
from ioaware.simulation.l2.events import ATOMIC, READ, Events

REMOTE_COPY = 2
NO_BLOCKS = np.uint64(0)
WAVE, CAPACITY, SKEW = 0, 1, 2
"""Reasons why a block is read again, as columns after `EXCESS_BYTES`."""


@compiled
def replay(state: State, shape: Shape, events: Events, lines: np.ndarray) -> None:
    """Replay events in order; `lines` are their lines as numbers in `state`."""
    for at in range(lines.size):
        line, left, right = lines[at], events.left[at], events.right[at]
        kind, tensor, wave, program = events.kind[at], events.tensor[at], events.wave[at], events.program[at]
        if kind != READ:
            _write(state, shape, line, left, right, kind, tensor, wave, program)
        elif shape.partitions == 2:
            _read(state, shape, line, left, right, tensor, wave, program)
        else:
            _read_undivided(state, shape, line, left | right, tensor, wave, program)
        if state.overfull[0] or state.dirty_used[0] > shape.dirty_bytes:
            _evict(state, shape)
        state.last_wave[line], state.last_program[line] = wave, program


@compiled
def _read_undivided(state: State, shape: Shape, line: int, mask: np.uint64, tensor: int, wave: int, program: int) -> None:
    """Look blocks up in the only partition."""
    key = line * ENTRIES
    missing = _look_up(state, shape, key, mask, tensor)
    if missing:
        _count_read(state, key, missing, tensor, wave, program)


@compiled
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
        if mask & ~state.resident[home]:
            missing = _look_up(state, shape, home, mask, tensor)
            _count_read(state, home, missing, tensor, wave, program)
        elif shape.keep:
            _keep(state, shape, home)
        if mask & ~state.resident[copy]:
            missing = _look_up(state, shape, copy, mask, tensor)
            if missing & ~state.resident[other]:
                _count_read(state, other, _look_up(state, shape, other, missing, tensor), tensor, wave, program)
            elif shape.keep:
                _keep(state, shape, other)
        elif shape.keep:
            _keep(state, shape, copy)


@compiled
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


@compiled
def _look_up(state: State, shape: Shape, key: int, mask: np.uint64, tensor: int) -> np.uint64:
    """Make blocks of an entry the most recently used, inserting absent ones.

    Return the absent ones.
    """
    resident = state.resident[key]
    missing = mask & ~resident
    number = _set_of(state, shape, key)
    if resident:
        _unlink(state, number, key)
    _append(state, number, key)
    if missing:
        state.resident[key] = resident | mask
        state.used[number] += _blocks(missing) * state.weight[tensor]
        if state.used[number] > shape.set_bytes:
            _note_overfull(state, number)
    return missing


@compiled
def _keep(state: State, shape: Shape, key: int) -> None:
    """Make an entry the most recently used."""
    number = _set_of(state, shape, key)
    if state.ends[number, LAST] != key:
        _unlink(state, number, key)
        _append(state, number, key)


@compiled
def _invalidate(state: State, shape: Shape, key: int, mask: np.uint64) -> None:
    """Remove blocks of an entry that have become stale."""
    gone = state.resident[key] & mask
    if gone:
        number = _set_of(state, shape, key)
        state.used[number] -= _blocks(gone) * state.weight[state.tensor[key // ENTRIES]]
        state.resident[key] &= ~mask
        if not state.resident[key]:
            _unlink(state, number, key)


@compiled
def _mark_dirty(state: State, key: int, mask: np.uint64, tensor: int) -> None:
    """Make blocks dirty, and their entry the last that is written back."""
    before = state.dirty[key]
    if before:
        _unlink_dirty(state, key)
    last = state.dirty_ends[LAST]
    state.dirty_older[key], state.dirty_newer[key] = last, NONE
    if last == NONE:
        state.dirty_ends[FIRST] = key
    else:
        state.dirty_newer[last] = key
    state.dirty_ends[LAST] = key
    state.dirty[key] = before | mask
    state.dirty_used[0] += _blocks(mask & ~before) * state.weight[tensor]


@compiled
def _count_read(state: State, key: int, missing: np.uint64, tensor: int, wave: int, program: int) -> None:
    """Count blocks read from HBM, repeated reads by reason."""
    size, line = state.weight[tensor], key // ENTRIES
    blocks, again = _blocks(missing), _blocks(missing & state.read_before[key])
    state.bytes[tensor, READ_BYTES] += blocks * size
    state.bytes[tensor, FIRST_BYTES] += (blocks - again) * size
    state.read_before[key] |= missing
    if again:
        before_wave, before_program = state.last_wave[line], state.last_program[line]
        if before_program == NONE:  # the event itself, in its other partition
            before_wave, before_program = wave, program
        reason = WAVE if wave > before_wave else CAPACITY if before_program == program else SKEW
        state.bytes[tensor, EXCESS_BYTES + reason] += again * size


@compiled
def _evict(state: State, shape: Shape) -> None:
    """Evict the oldest entries of sets that are too full; limit the dirty ones."""
    for at in range(1, state.overfull[0] + 1):
        number = state.overfull[at]
        while state.used[number] > shape.set_bytes:
            key = int(state.ends[number, FIRST])
            state.used[number] -= _blocks(state.resident[key]) * state.weight[state.tensor[key // ENTRIES]]
            _unlink(state, number, key)
            state.resident[key] = NO_BLOCKS
            if state.dirty[key]:
                _write_back(state, key)
    state.overfull[0] = 0
    while state.dirty_used[0] > shape.dirty_bytes:
        _write_back(state, state.dirty_ends[FIRST])


@compiled
def _write_back(state: State, key: int) -> None:
    """Write the dirty blocks of an entry to HBM."""
    dirty, tensor = state.dirty[key], state.tensor[key // ENTRIES]
    size, before = state.weight[tensor], state.written_before[key]
    state.written_before[key] = before | dirty
    state.bytes[tensor, WRITE_BYTES] += _blocks(dirty) * size
    state.bytes[tensor, REWRITTEN_BYTES] += _blocks(dirty & before) * size
    state.dirty_used[0] -= _blocks(dirty) * size
    state.dirty[key] = NO_BLOCKS
    _unlink_dirty(state, key)


@compiled
def _set_of(state: State, shape: Shape, key: int) -> int:
    return state.place[key // ENTRIES] * shape.apart + (key & (shape.apart - 1))


@compiled
def _note_overfull(state: State, number: int) -> None:
    for at in range(1, state.overfull[0] + 1):
        if state.overfull[at] == number:
            return
    state.overfull[0] += 1
    state.overfull[state.overfull[0]] = number


@compiled
def _append(state: State, number: int, key: int) -> None:
    """Make an entry that is in no list the newest of its set."""
    last = state.ends[number, LAST]
    state.older[key], state.newer[key] = last, NONE
    if last == NONE:
        state.ends[number, FIRST] = key
    else:
        state.newer[last] = key
    state.ends[number, LAST] = key


@compiled
def _unlink(state: State, number: int, key: int) -> None:
    """Take an entry out of the list of its set."""
    older, newer = state.older[key], state.newer[key]
    if older == NONE:
        state.ends[number, FIRST] = newer
    else:
        state.newer[older] = newer
    if newer == NONE:
        state.ends[number, LAST] = older
    else:
        state.older[newer] = older


@compiled
def _unlink_dirty(state: State, key: int) -> None:
    """Take an entry out of the list of dirty ones."""
    older, newer = state.dirty_older[key], state.dirty_newer[key]
    if older == NONE:
        state.dirty_ends[FIRST] = newer
    else:
        state.dirty_newer[older] = newer
    if newer == NONE:
        state.dirty_ends[LAST] = older
    else:
        state.dirty_older[newer] = older


@compiled
def _blocks(mask: np.uint64) -> int:
    """Return how many bits are set.

    They are counted by two, four and eight at a time (Warren, Hacker's Delight, section 5-1).
    """
    pairs = mask - (mask >> np.uint64(1) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + (pairs >> np.uint64(2) & np.uint64(0x3333333333333333))
    eights = fours + (fours >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(eights * np.uint64(0x0101010101010101) >> np.uint64(56))
