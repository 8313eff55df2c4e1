"""Probe scripts: kernels get their probe's description, counters and notes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import ModuleType

import pytest

from ioaware.errors import DataError
from ioaware.measurement.counters.ncu_csv import Metric
from ioaware.targets.loading import load_file

SCRIPT = Path(__file__).parents[2] / "scripts" / "probe_runs.py"
RANGE = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
COUNTERS = {"read_bytes": Metric("dram__bytes_read.sum", "byte"), "time_ns": Metric("gpu__time_duration.sum", "time")}
PLAN, NOTES = [{"probe": "reread", "size": 1}, {"probe": "cases", "size": 2}], [{}, {"sm": [3, 4]}]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


def table(*kernels: tuple[str, int, str]) -> str:
    """Return ncu's table of (kernel, probe, time in microseconds), each of 1.5 Kbyte."""
    text = io.StringIO()
    rows = csv.writer(text, quoting=csv.QUOTE_ALL)
    rows.writerow(["ID", RANGE, "Kernel Name", "Grid Size", *(metric.name for metric in COUNTERS.values())])
    rows.writerow(["", "", "", "", "Kbyte", "us"])
    for number, (kernel, probe, time) in enumerate(kernels):
        rows.writerow([number, f'"<default domain>:ioaware:{probe}:none"', kernel, "(8, 1, 1)", "1.5", time])
    return text.getvalue()


def test_kernels_have_the_description_and_notes_of_their_probe(script: ModuleType) -> None:
    first, *second = script.described(table(("a", 0, "2"), ("b", 1, "3"), ("c", 1, "4.5")), PLAN, NOTES, COUNTERS)
    assert first == {**PLAN[0], "kernel": "a", "grid": "(8, 1, 1)", "read_bytes": 1500, "time_ns": 2000}
    assert [(one["kernel"], one["size"], one["time_ns"], one["sm"]) for one in second] == [
        ("b", 2, 3000, [3, 4]),
        ("c", 2, 4500, [3, 4]),
    ]


def test_a_counter_that_is_missing_is_refused(script: ModuleType) -> None:
    with pytest.raises(DataError, match=r"no column launch__block_size"):
        script.described(table(("a", 0, "2")), PLAN, NOTES, {**COUNTERS, "threads": Metric("launch__block_size", "count")})
