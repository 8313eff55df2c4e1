"""Memory that is swept again and again beside reads or stores, as counted.

No constant is fitted to it.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ioaware.machine import find_machine_or_file
from ioaware.simulation.simulate import simulate
from ioaware.targets.target import load_target

SCRIPT = Path(__file__).parents[3] / "scripts" / "probe_pressure.py"
MIB, TILE_BYTES, WARPS = 1 << 20, 8192, 16
SLOW = 400
"""Steps of computation beside which HBM is far from its ceiling."""
POINTS = [(8, 1), (4, 2), (8, 2), (2, 4), (4, 4), (8, 4), (1, 8), (2, 8), (1, 16), (2, 16)]
"""Bytes stored or read beside over those swept, and MiB swept."""


@cache
def launches() -> list[dict[str, Any]]:
    text = (files("ioaware") / "recorded" / "l2" / "h200-pressure.json").read_text()
    return [one for one in json.loads(text)["launches"] if one["warps"] == WARPS]


def launch(stores: bool, ratio: int, kept: int, steps: int) -> dict[str, Any]:
    what = {"stores": stores, "ratio": ratio, "kept_bytes": kept * MIB, "steps": steps}
    (found,) = [one for one in launches() if what.items() <= one.items()]
    return found


def missing(one: dict[str, Any], read_bytes: int) -> float:
    """Return the share of repeated reads that are not in the L2."""
    own_bytes = 0 if one["stores"] else one["programs"] * one["ratio"] * TILE_BYTES
    return (read_bytes - own_bytes - one["kept_bytes"]) / (one["programs"] * TILE_BYTES - one["kept_bytes"])


def counted(stores: bool, ratio: int, kept: int, steps: int = 0) -> float:
    one = launch(stores, ratio, kept, steps)
    return missing(one, one["hbm_read_bytes"])


def predicted(stores: bool, ratio: int, kept: int) -> float:
    one, target = launch(stores, ratio, kept, 0), load_target(f"{SCRIPT}:swept")
    params = target.resolve({"kept": kept, "ratio": ratio, "stores": stores, "programs": one["programs"], "warps": WARPS})
    done = simulate(target, params, machine=find_machine_or_file("H200"), cold=True, ranges=False)
    assert done.hbm is not None
    return missing(one, int(done.hbm.read_bytes or 0))


@pytest.mark.parametrize(("ratio", "kept"), POINTS)
def test_memory_beside_reads_misses_as_often_as_counted(ratio: int, kept: int) -> None:
    assert predicted(False, ratio, kept) == pytest.approx(counted(False, ratio, kept), abs=0.01, rel=0.16)


def test_stores_displace_more_than_reads_and_most_where_hbm_is_at_its_ceiling() -> None:
    """The model has less: where HBM is at its ceiling it is too low."""
    for ratio, kept in POINTS[1:]:
        fast = counted(True, ratio, kept)
        assert counted(False, ratio, kept, SLOW) < counted(True, ratio, kept, SLOW) < fast + 0.01, (ratio, kept)
        assert predicted(True, ratio, kept) < fast
