"""The L1 model: its sets by brute force, and slices that a program reads again."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import ioaware
from ioaware.simulation.l1.l1_sets import (
    AFTER_WAIT,
    FIRST,
    LAST,
    LAST_USE,
    NORMAL,
    PROTECTED,
    STORED,
    WAYS,
    WHOLE,
    WRITTEN_APART,
    _set_of,
    add_served_sectors,
)
from ioaware.simulation.l1.l1_shape import LINE_BYTES


def by_hand(accesses: list[tuple[int, int, int, int]], sets: int) -> dict[int, int]:
    """Return the sectors that hit, by number, from two lists of lines a set.

    One has lines that were read once, the other those that were read again.
    """
    once: dict[int, list[tuple[int, int]]] = {}
    again: dict[int, list[tuple[int, int]]] = {}
    served: dict[int, int] = {}
    for line, sectors, number, use in accesses:
        new, old = (lines.setdefault(_set_of(line, sets), []) for lines in (once, again))
        known = next((had for one, had in (*old, *new) if one == line), None)
        if use == LAST_USE and known is None:
            continue
        if use != STORED:
            served[number] = served.get(number, 0) + ((known or 0) & sectors).bit_count()
        for lines in (old, new):
            lines[:] = [pair for pair in lines if pair[0] != line]
        to, place = (old if use == LAST or (known is not None and use in (STORED, NORMAL)) else new), 0
        if use == FIRST:
            del new[WAYS - len(old) - 1 :]
            place = len(new)
        to.insert(place, (line, (known or 0) | sectors))
        new[:0] = old[PROTECTED:]
        del old[PROTECTED:], new[WAYS - len(old) :]
    return served


def replayed(capacity_bytes: int, accesses: list[tuple[int, int, int, int]], again: int = 0) -> list[int]:
    """Return served sectors of three instructions.

    Every chunk is a line, and so many of them hit at once.
    """
    served, (line, sectors, number, use) = np.zeros(3, dtype=np.int64), zip(*accesses, strict=True)
    kinds = np.array(line), np.ones(len(line), dtype=np.int64), np.array(sectors, dtype=np.uint64)
    add_served_sectors(
        served, capacity_bytes, *kinds, np.array(number), np.array(use, dtype=np.int8), np.full(len(line), again, np.int16)
    )
    return served.tolist()


@pytest.mark.parametrize("sets", [1, 3, 8])
def test_served_sectors_are_those_of_lists_of_lines(sets: int) -> None:
    for seed in range(40):
        chosen = random.Random(seed)
        accesses = [
            (chosen.randrange(5 * sets), chosen.randrange(1, 16), chosen.randrange(3), chosen.randrange(5))
            for _ in range(chosen.randrange(1, 200))
        ]
        wanted = by_hand(accesses, sets)
        assert replayed(sets * WAYS * LINE_BYTES, accesses) == [wanted.get(number, 0) for number in range(3)], seed


@pytest.mark.parametrize("sets", [56, 448])
def test_memory_as_large_as_the_cache_is_kept_and_read_again(sets: int) -> None:
    lines = sets * WAYS
    twice = [(sets + line, 15, number, NORMAL) for number in range(2) for line in range(lines)]
    assert replayed(sets * WAYS * LINE_BYTES, twice) == [0, 4 * lines, 0]
    assert replayed(0, twice) == [0, 0, 0]


def test_rows_beyond_the_cache_never_hit_when_they_are_read_in_turn() -> None:
    """Lines that came first leave: only those that hit have places of their own."""
    turns = [(row * 64 + line, 15, number, NORMAL) for number in range(3) for line in range(64) for row in range(40)]
    assert replayed(40 * WAYS * LINE_BYTES, turns) == [0, 0, 0]


def test_slices_that_are_read_again_hit_as_counted() -> None:
    """One program of an SM reads a slice four times, of up to the L1's bytes."""
    record = Path(ioaware.__file__).parent / "recorded" / "l1" / "h200-l1.json"
    probes = [one for one in json.loads(record.read_text())["launches"] if one.get("probe") == "reread"]
    off: list[float] = []
    for one in probes:
        lines = (one["slice_kib"] << 10) // LINE_BYTES
        missed = (one["requested_read_bytes"] / (lines * LINE_BYTES * one["programs"]) - 1) / 3
        rounds = [(1_000_003 + line, 15, 0, NORMAL) for _ in range(4) for line in range(lines)]
        served = replayed((256 << 10) - int(one["config_bytes"]), rounds)[0]
        off.append(abs(1 - served / (3 * 4 * lines) - missed))
    assert sum(off) / len(off) < 0.06


def test_what_is_touched_again_after_a_wait_adds_the_sectors_that_miss() -> None:
    between = [(line, 15, 2, NORMAL) for line in range(2, 2 + WAYS)]
    for others, missing in (([], 0), (between, 4)):
        accesses = [(1, 15, 0, NORMAL), *others, (1, 15, 1, AFTER_WAIT)]
        assert replayed(WAYS * LINE_BYTES, accesses, again=WHOLE)[1] == missing
    assert replayed(WAYS * LINE_BYTES, [(1, 15, 0, NORMAL), *between, (1, 15, 1, AFTER_WAIT)])[1] == 0  # none of the lines


def test_sectors_written_apart_are_no_longer_valid() -> None:
    accesses = [(1, 15, 0, NORMAL), (1, 3, 2, STORED), (1, 3, 2, WRITTEN_APART), (1, 15, 1, NORMAL), (1, 15, 1, NORMAL)]
    assert replayed(WAYS * LINE_BYTES, accesses, again=WHOLE)[1] == 2 + 4
    assert replayed(WAYS * LINE_BYTES, [(1, 15, 2, WRITTEN_APART), (1, 15, 1, NORMAL)], again=WHOLE)[1] == 0


def test_a_chunk_is_its_lines() -> None:
    served = np.zeros(1, dtype=np.int64)
    masks = np.array([0x00F0_0000_0000_00FF, 0x0FF0_0000_0000_0F0F], dtype=np.uint64)
    once = np.array([7, 7]), np.array([16, 16]), masks, np.zeros(2, dtype=np.int64), np.full(2, NORMAL, dtype=np.int8)
    add_served_sectors(served, 1 << 18, *once, np.zeros(2, dtype=np.int16))
    assert served.tolist() == [(int(masks[0]) & int(masks[1])).bit_count()]


@pytest.mark.parametrize(("again", "hits"), [(0, 4 * 2), (WHOLE, 0)])
def test_lines_that_several_instructions_touch_do_not_spare_those_that_hit(again: int, hits: int) -> None:
    """Two lines hit, then twelve others come to a set of six lines."""
    kept = [(line, 15, 0, NORMAL) for _ in range(2) for line in range(2)]
    served, uses = np.zeros(3, dtype=np.int64), [(line, 15, 1, use) for use in (NORMAL, STORED) for line in range(90, 96)]
    accesses = [*kept, *uses, *((line, 15, 2, NORMAL) for line in range(2))]
    line, sectors, number, use = (np.array(column) for column in zip(*accesses, strict=True))
    shared = np.where(number == 1, again, 0).astype(np.int16)
    kinds = line, np.ones(line.size, dtype=np.int64), sectors.astype(np.uint64)
    add_served_sectors(served, WAYS * LINE_BYTES, *kinds, number, use.astype(np.int8), shared)
    assert served[2] == hits


NORM = """
import torch, triton, triton.language as tl

@triton.jit
def scaled(x, w, y, COLS: tl.constexpr, MODIFIER: tl.constexpr):
    at = tl.program_id(0) * COLS + tl.arange(0, COLS)
    tl.store(y + at, tl.load(x + at) * tl.load(w + tl.arange(0, COLS), cache_modifier=MODIFIER))

def plain(rows=1320, modifier="", device="cuda"):
    x, y = (torch.empty(rows, 1024, device=device) for _ in range(2))
    w = torch.empty(1024, device=device)
    scaled[(rows,)](x, w, y, COLS=1024, MODIFIER=modifier)
    return y
"""
ROW = 1024 * 4


def test_weights_are_read_once_by_each_sm_and_by_all_programs_past_the_l1(tmp_path: Path) -> None:
    path = tmp_path / "norm.py"
    path.write_text(NORM)
    found = ioaware.simulate(f"{path}:plain", rows=1320)
    assert found.requested is not None
    assert found.requested.read_sector_bytes == (1320 + 132) * ROW
    past = ioaware.simulate(f"{path}:plain", rows=1320, modifier=".cg")
    assert past.requested is not None
    assert past.requested.read_sector_bytes == 2 * 1320 * ROW


def test_a_launch_that_loads_nothing_through_the_l1_is_served_nothing() -> None:
    found = ioaware.simulate(
        "ioaware.kernels.attention.targets:hopper_backward", seq_len=1536, heads=5, head_dim=64, machine="H200"
    )
    last = found.simulations[-1]
    assert last.l1 is not None
    assert last.l1.served_bytes == 0
