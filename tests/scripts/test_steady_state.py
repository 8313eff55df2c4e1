"""The script that counts calls in steady state attributes ranges to points."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import ModuleType

import pytest

from ioaware.errors import DataError
from ioaware.measurement.counters.ncu import Ncu
from ioaware.sweep.points import Point
from ioaware.targets.loading import load_file

SCRIPT = Path(__file__).parents[2] / "scripts" / "steady_state.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


def log(script: ModuleType, ranges: int) -> str:
    """Return ncu's table of ranges, where counter c of range r is 1000 (r + 1) + c."""
    rows = [["ID", "Kernel Name", "Grid Size", *(metric.name for metric in script.METRICS)]]
    rows.append(["", "", "", *("byte" for _ in script.METRICS)])
    for number in range(ranges):
        rows.append([str(number), "range", "", *(str(1000 * (number + 1) + at) for at in range(len(script.METRICS)))])
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


POINTS = [Point("measure", "flash2", {"seq_len": 128 * (number + 1)}) for number in range(3)]


def test_bytes_of_a_range_are_divided_by_its_calls(script: ModuleType) -> None:
    plans = [script.Plan(2, 10, 100), script.Plan(error="ValueError: no such size"), script.Plan(2, 4, 100)]
    one, failed, other = script.records(POINTS, plans, [{"gpu": "one"}] * 3, log(script, 2))
    assert (one.requested.read_bytes, one.requested.write_bytes) == (100, 100)
    assert (other.hbm.read_bytes, other.hbm.write_bytes) == (round(2002 / 4), round(2003 / 4))
    assert other.telemetry["steady_state"]["calls"] == 4
    assert other.telemetry["steady_state"]["counted"][script.HBM_WRITES] == 2003
    assert (failed.status, failed.notes) == ("failed", ("ValueError: no such size",))
    assert one.environment == {"gpu": "one"}


def test_a_missing_range_is_no_record(script: ModuleType) -> None:
    with pytest.raises(DataError, match="1 ranges where 2 ran"):
        list(script.records(POINTS[:2], [script.Plan(2, 2, 1)] * 2, [{}] * 2, log(script, 1)))


def test_a_wrong_output_is_no_record(script: ModuleType) -> None:
    plans = [script.Plan(2, 2, 1, relative_error=0.5, tolerance=0.001)]
    (result,) = script.records(POINTS[:1], plans, [{}], log(script, 1))
    assert result.status == "failed"
    assert "wrong by 0.5" in result.notes[0]


def test_nothing_is_flushed_and_a_range_is_one_row(script: ModuleType) -> None:
    argv = script.command(Ncu(Path("/ncu"), (2025, 3, 1)), Path("log.csv"), ["python"])
    assert argv[argv.index("--cache-control") + 1] == "none"
    assert argv[argv.index("--replay-mode") + 1] == "app-range"
    assert "--nvtx" not in argv
    assert "ioaware/" in script.command(Ncu(Path("/ncu"), (2025, 3, 1)), Path("log.csv"), ["python"], nvtx=True)
