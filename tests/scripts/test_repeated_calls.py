"""Launches whose terms add up on average alone."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.counters import l1_counters as l1
from ioaware.measurement.counters.kernel_attribution import REQUESTED_READS, REQUESTED_WRITES
from ioaware.targets.loading import load_file

ROOT = Path(__file__).parents[2]
RECORD = Path(str(files("ioaware"))) / "recorded" / "l1" / "h200-passes.json"
SECTORS = 1000
KEY = ("file.py:function", '{"n": 8}', "kernel", "(4,1,1)")


@pytest.fixture(scope="module")
def repeated() -> ModuleType:
    return load_file(ROOT / "scripts" / "foreign" / "repeated_calls.py")


def call(hits: int, moved_sectors: int, probe: str = "repeated", only: str = "") -> dict[str, Any]:
    """Return a call that requests 1000 sectors of reads, and stores nothing."""
    names = (l1.SPILL_READS, l1.SPILL_HITS, l1.SPILL_WRITES, l1.ATOMICS, l1.REDUCTIONS, l1.WRITE_SECTORS, REQUESTED_WRITES)
    counters = dict.fromkeys(names, 0)
    counters |= {l1.READ_SECTORS: SECTORS, l1.HITS: hits, REQUESTED_READS: SECTOR_BYTES * moved_sectors}
    kept = {name: count for name, count in counters.items() if only in ("", name)}
    launch = {"target": KEY[0], "params": {"n": 8, "unset": None}, "kernel": KEY[2], "grid": "(4, 1, 1)"}
    return {"probe": probe, **launch, "passes": 1 if only else 8, "counters": kept}


def calls_of(repeated: ModuleType, tmp_path: Path, *launches: dict[str, Any]) -> Any:
    path = tmp_path / "calls.json"
    path.write_text(json.dumps({"launches": launches}))
    return repeated.read_calls(path)[KEY]


def test_terms_that_vary_add_up_on_average(repeated: ModuleType, tmp_path: Path) -> None:
    calls = calls_of(repeated, tmp_path, call(100, 920), call(120, 860))
    assert (calls.count, calls.passes, calls.alone) == (2, 8, 0)
    assert (calls.reads.least, calls.reads.most, calls.reads.mean) == (-0.02, 0.02, 0.0)
    assert calls.reads.within(0.0)
    assert calls.writes.within(0.0)


def test_each_counter_alone_counts_in_its_mean(repeated: ModuleType, tmp_path: Path) -> None:
    alone = [call(160, 0, "alone", l1.HITS), call(0, 810, "alone", REQUESTED_READS)]
    calls = calls_of(repeated, tmp_path, call(100, 900), call(100, 900), *alone)
    assert calls.alone == 1
    assert calls.reads.mean == pytest.approx(-0.010)  # hits 120, bytes of 870 sectors
    assert calls.reads.least == calls.reads.most == 0.0


def test_terms_that_leave_the_same_each_time_do_not_add_up(repeated: ModuleType, tmp_path: Path) -> None:
    calls = calls_of(repeated, tmp_path, call(100, 910), call(120, 890))
    assert calls.reads.mean == 0.01
    assert not calls.reads.within(0.005)


def test_less_than_a_sector_adds_up(repeated: ModuleType) -> None:
    assert repeated.Rest(-0.1, 0.1, 0.02, 31.0).within(0.005)
    assert not repeated.Rest(-0.1, 0.1, 0.02, 32.0).within(0.005)


def test_recorded_calls_were_counted_in_several_runs(repeated: ModuleType) -> None:
    calls = repeated.read_calls(RECORD)
    assert all(one.count % 10 == 0 for one in calls.values())
    assert {one.passes for one in calls.values()} == {8}
    alone = [launch for launch in json.loads(RECORD.read_bytes())["launches"] if launch["probe"] == "alone"]
    assert {launch["passes"] for launch in alone} == {1}
    assert all(one.reads.within(0.005) for one in calls.values())


def row(**changes: Any) -> Any:
    """Return a launch whose reads leave 5 % in the recorded call."""
    sides: Any = load_file(ROOT / "scripts" / "foreign" / "sides.py")
    numbers = {"elements": 1000, "sectors": 1000, "asked_counted": 1000, "hits": 0, "spills": 0, "atomics": 0}
    reads, writes = sides.Side(**numbers, asked=1000, passed=1050), sides.Side(**numbers, asked=1000, passed=1000)
    return sides.Row(
        **{"target": "t", "params": {}, "kernel": "k", "reads": reads, "writes": writes, "data": None} | changes, tma=False
    )


def test_a_row_is_closed_by_its_calls(repeated: ModuleType, tmp_path: Path) -> None:
    even = calls_of(repeated, tmp_path, call(100, 920), call(120, 860))
    odd = calls_of(repeated, tmp_path, call(100, 910), call(120, 890))
    assert not row().closed
    assert row(calls=even).closed
    assert row(calls=even).averaged
    assert not row(calls=odd).closed


def test_calls_do_not_excuse_sectors_that_were_not_requested(repeated: ModuleType, tmp_path: Path) -> None:
    sides: Any = load_file(ROOT / "scripts" / "foreign" / "sides.py")
    skipped = sides.Side(1000, 1000, asked=1000, asked_counted=968, hits=0, spills=0, atomics=0, passed=1050)
    assert not row(reads=skipped, calls=calls_of(repeated, tmp_path, call(100, 900))).closed
