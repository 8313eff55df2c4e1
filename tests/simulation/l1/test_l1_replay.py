"""The L1 model: reuse distances by brute force, limits, and monotony in capacity."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ioaware
from ioaware.machine.model import L1_OF_H200
from ioaware.simulation.l1.l1_shape import LINE_BYTES, L1Shape, lines_of
from ioaware.simulation.l1.reuse import NEVER, reuse


def by_hand(chunks: list[int], lines: dict[int, int]) -> list[int]:
    """Return the distances by a list of chunks, the most recent first."""
    recent: list[int] = []
    found: list[int] = []
    for chunk in chunks:
        if chunk in recent:
            at = recent.index(chunk)
            found.append(sum(lines[other] for other in recent[:at]))
            recent.pop(at)
        else:
            found.append(NEVER)
        recent.insert(0, chunk)
    return found


def test_reuse_distances_are_those_of_an_lru_list() -> None:
    """Two SMs each have their own list."""
    for seed in range(60):
        chosen = random.Random(seed)
        lines = {chunk: chosen.randrange(1, 17) for chunk in range(9)}
        sms = [[chosen.randrange(9) for _ in range(chosen.randrange(1, 80))] for _ in range(2)]
        chunks = np.array([chunk for sm in sms for chunk in sm])
        edges = np.array([0, len(sms[0]), chunks.size])
        masks = np.ones(chunks.size, dtype=np.uint64)
        found, _ = reuse(chunks, masks, np.array([lines[chunk] for chunk in chunks.tolist()]), edges)
        assert found.tolist() == [*by_hand(sms[0], lines), *by_hand(sms[1], lines)], seed


def test_a_first_access_misses_in_any_cache_and_every_access_without_one() -> None:
    distances = np.array([NEVER, 0, 10, 10_000])
    assert L1Shape(0, L1_OF_H200).hit_shares(distances).tolist() == [0, 0, 0, 0]
    assert L1Shape(1 << 40, L1_OF_H200).hit_shares(distances).tolist() == [0, 1, 1, 1]


def test_a_larger_cache_never_hits_less_and_a_longer_distance_never_more() -> None:
    distances = np.arange(0, 4000, 7)
    shares = [L1Shape(kib << 10, L1_OF_H200).hit_shares(distances) for kib in (28, 60, 124, 224, 256)]
    for small, large in pairwise(shares):
        assert bool((large >= small - 1e-12).all())
    assert all(bool((np.diff(one) <= 1e-12).all()) for one in shares)


@pytest.mark.parametrize(
    ("mask", "lines"), [(0, 0), (1, 1), (0b1000, 1), (0b11000, 2), (0b1_0001_0001, 3), ((1 << 64) - 1, 16)]
)
def test_lines_of_a_mask(mask: int, lines: int) -> None:
    assert lines_of(np.array([mask], dtype=np.uint64)).tolist() == [lines]


def test_known_sectors_are_those_of_earlier_accesses() -> None:
    for seed in range(40):
        chosen = random.Random(seed)
        pairs = [(chosen.randrange(6), chosen.getrandbits(64) & chosen.getrandbits(64)) for _ in range(chosen.randrange(80))]
        seen: dict[int, int] = {}
        counted: list[int] = []
        for chunk, mask in pairs:
            counted.append((seen.get(chunk, 0) & mask).bit_count())
            seen[chunk] = seen.get(chunk, 0) | mask
        chunks, masks = (np.array([pair[at] for pair in pairs], dtype=kind) for at, kind in enumerate((np.int64, np.uint64)))
        _, known = reuse(chunks, masks, np.ones(chunks.size, dtype=np.int64), np.array([0, chunks.size]))
        assert known.tolist() == counted, seed
    assert LINE_BYTES == 128


def test_the_parameters_give_the_recorded_misses_of_slices_that_are_read_again() -> None:
    record = Path(ioaware.__file__).parent / "recorded" / "l1" / "h200-l1.json"
    probes = [one for one in json.loads(record.read_text())["launches"] if one.get("probe") == "reread"]
    squares: list[float] = []
    for one in probes:
        slice_bytes = one["slice_kib"] << 10
        missed = (one["requested_read_bytes"] / (slice_bytes * one["programs"]) - 1) / 3
        shape = L1Shape((256 << 10) - int(one["config_bytes"]), L1_OF_H200)
        hit = float(shape.hit_shares(np.array([slice_bytes // LINE_BYTES]))[0])
        squares.append((1 - hit - missed) ** 2)
    assert len(squares) == 40
    assert (sum(squares) / len(squares)) ** 0.5 < 0.05


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
