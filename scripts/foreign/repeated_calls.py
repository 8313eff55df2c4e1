"""Read launches that were counted again, by `scripts/probe_requests.py`.

ncu runs a kernel once for every few counters, so that hits and bytes are counts of different runs. What the L1 holds depends on
which programs an SM runs side by side, and when. So the hits of some kernels differ from run to run, and the terms of one call
add up to its bytes on average alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.counters import l1_counters as l1
from ioaware.measurement.counters.kernel_attribution import REQUESTED_READS, REQUESTED_WRITES
from ioaware.result import Launch, Result

Key = tuple[str, str, str, str]
"""File and function, parameters, kernel and grid."""
READ_TERMS = {l1.READ_SECTORS: 1, l1.HITS: -1, l1.SPILL_READS: 1, l1.SPILL_HITS: -1, l1.ATOMICS: 1}
"""Sectors that reads between L1 and L2 are made of, in a kernel without TMA."""
WRITE_TERMS = {l1.WRITE_SECTORS: 1, l1.SPILL_WRITES: 1, l1.REDUCTIONS: 1, l1.ATOMICS: 1}


@dataclass(frozen=True, slots=True)
class Rest:
    """What the terms of one side do not add up to."""

    least: float
    most: float
    """Of single calls, as shares of the requests."""
    mean: float
    """Of the means of all terms, each over every run that counted it."""
    mean_bytes: float

    def within(self, tolerance: float) -> bool:
        """Return whether the means add up.

        They do within a share of the requests, or where they leave less than a sector.
        """
        return abs(self.mean) <= tolerance or abs(self.mean_bytes) < SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Calls:
    """A launch that was counted in several calls."""

    count: int
    passes: int
    """Runs of the kernel that each call took."""
    alone: int
    """Calls that counted one term alone, each in one run."""
    reads: Rest
    writes: Rest


def read_calls(path: Path) -> dict[Key, Calls]:
    """Return the launches of a record of `scripts/probe_requests.py`."""
    together: dict[Key, list[Mapping[str, Any]]] = {}
    alone: dict[Key, list[Mapping[str, Any]]] = {}
    for launch in json.loads(path.read_bytes())["launches"]:
        kept = {"repeated": together, "alone": alone}.get(launch["probe"])
        if kept is not None:
            key = (launch["target"], _spelled(launch["params"]), launch["kernel"], launch["grid"].replace(" ", ""))
            kept.setdefault(key, []).append(launch)
    return {key: _calls(its, alone.get(key, ())) for key, its in together.items()}


def key_of(result: Result, launch: Launch) -> Key:
    """Return the key of a recorded launch."""
    grid = f"({','.join(map(str, launch.grid or ()))})"
    return result.target.rpartition("/")[2], _spelled(result.params), launch.kernel, grid


def _spelled(params: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in params.items() if value is not None}, sort_keys=True)


def _calls(together: Sequence[Mapping[str, Any]], alone: Sequence[Mapping[str, Any]]) -> Calls:
    counted = [launch["counters"] for launch in together]
    rest = partial(_rest, counted, [launch["counters"] for launch in alone])
    fewest = min((sum(name in launch["counters"] for launch in alone) for name in (l1.HITS, REQUESTED_READS)), default=0)
    return Calls(
        len(together), together[0]["passes"], fewest, rest(REQUESTED_READS, READ_TERMS), rest(REQUESTED_WRITES, WRITE_TERMS)
    )


def _rest(
    together: Sequence[Mapping[str, int]], alone: Sequence[Mapping[str, int]], moved: str, terms: Mapping[str, int]
) -> Rest:
    def rest_bytes(counts: Mapping[str, float]) -> float:
        return counts[moved] - SECTOR_BYTES * sum(sign * counts[name] for name, sign in terms.items())

    every = [*together, *alone]
    means = {name: fmean(counts[name] for counts in every if name in counts) for name in (moved, *terms)}
    asked = SECTOR_BYTES * sum(means[name] for name, sign in terms.items() if sign > 0) or 1
    single = [rest_bytes(counts) / asked for counts in together]
    return Rest(min(single), max(single), rest_bytes(means) / asked, rest_bytes(means))
