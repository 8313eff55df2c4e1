"""Measured results in the JSON of pytest-benchmark and of `measure`."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import DataError
from ioaware.gate.measured.comparison import compare_runs, measured_results
from ioaware.gate.measured.json_results import json_results
from ioaware.gate.verdict import BaselineError, Verdict
from ioaware.result import Result, Timing, Traffic
from ioaware.result_file import encode

INFO = {
    "gpu": "NVIDIA H200",
    "driver": "580.1",
    "triton": "3.6.0",
    "sm_clock_mhz": {"min": 1980, "median": 1980, "max": 1980},
    "requested_read_bytes": 600,
    "requested_write_bytes": 400,
}


def benchmark(name: str = "test_a.py::test_a", *, scale: float = 1.0, **info: Any) -> dict[str, Any]:
    rounds = [scale * (1e-5 + 1e-8 * (at % 5)) for at in range(30)]
    return {"fullname": name, "extra_info": {**INFO, **info}, "stats": {"data": rounds}}


def saved(folder: Path, *benchmarks: dict[str, Any], name: str = "run.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"machine_info": {}, "benchmarks": benchmarks}, indent=1))
    return path


def test_what_a_benchmark_says(tmp_path: Path) -> None:
    plain = {"fullname": "test_cpu", "extra_info": {}, "stats": {"data": [1.0, 1.0]}}
    (found,) = json_results(saved(tmp_path, benchmark(), plain))
    assert (found.source, found.target, found.requested, found.hbm) == ("measure", "test_a.py::test_a", Traffic(600, 400), None)
    assert found.timing is not None
    assert (found.timing.median_ns, found.timing.count) == (pytest.approx(10_020), 30)
    assert found.timing.rounds_ns == pytest.approx([10_000 + 10 * (at % 5) for at in range(30)])
    assert found.environment == {"gpu": "NVIDIA H200", "driver": "580.1", "triton": "3.6.0"}
    assert found.telemetry == {"before": {"sm_clock_mhz": 1980}}


def test_two_runs_are_compared_by_bytes_time_and_machine(tmp_path: Path) -> None:
    old = json_results(saved(tmp_path, benchmark()))
    for changed, verdict, time in (
        ({}, Verdict.SAME, Verdict.SAME),
        ({"scale": 1.1}, Verdict.WORSE, Verdict.WORSE),
        ({"scale": 0.9}, Verdict.SAME, Verdict.BETTER),
        ({"requested_read_bytes": 601}, Verdict.WORSE, Verdict.SAME),
        ({"gpu": "NVIDIA H100"}, Verdict.INCOMPARABLE, None),
    ):
        found = compare_runs(old, json_results(saved(tmp_path, benchmark(**changed))))
        assert (found.verdict, found.points[0].time_verdict) == (verdict, time), changed


def test_the_verb_compares_files_of_pytest_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = saved(tmp_path, benchmark()), saved(tmp_path, benchmark(scale=1.1), name="new.json")
    assert run(["compare", str(old), str(old)], Settings()) == 0
    assert run(["compare", str(old), str(new)], Settings()) == 1
    assert "+10.0 %" in capsys.readouterr().out


def test_a_record_of_measure(tmp_path: Path) -> None:
    record = Result("measure", "flash2", {"heads": 1}, Traffic(1, 2), timing=Timing(2, 1, 3, 1, 5))
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(encode(record)), indent=2))
    assert measured_results(path) == [record]


def damaged(*path: str | int, value: Any) -> dict[str, Any]:
    document: dict[str, Any] = deepcopy({"benchmarks": [benchmark()]})
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


DATA = ("benchmarks", 0, "stats", "data")
DAMAGED = [
    damaged("benchmarks", value={}),
    damaged("benchmarks", 0, value=None),
    damaged("benchmarks", 0, "fullname", value=""),
    damaged("benchmarks", 0, "extra_info", value=[]),
    damaged("benchmarks", 0, "stats", value={}),
    damaged("benchmarks", 0, "extra_info", "requested_read_bytes", value=-1),
    damaged("benchmarks", 0, "extra_info", "requested_read_bytes", value=True),
    damaged("benchmarks", 0, "extra_info", "requested_read_bytes", value="600"),
    damaged("benchmarks", 0, "extra_info", "sm_clock_mhz", value=1980),
    *(
        damaged(*DATA, value=value)
        for value in (None, [], [1e-5], [1e-5, 0], [1e-5, -1.0], [1e-5, "1"], [1e-5, True], [1e-5, None])
    ),
    {"schema": 1, "source": "measure"},
    {},
    [],
]


@pytest.mark.parametrize("document", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files_are_refused(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"run\.json: "):
        json_results(path)


def test_cut_and_not_finite_files_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, benchmark())
    text = path.read_text()
    for cut in range(0, len(text) - 1, 7):
        path.write_text(text[:cut])
        with pytest.raises(DataError):
            json_results(path)
    path.write_text(text.replace("1e-05", "NaN"))
    with pytest.raises(DataError, match="NaN is not JSON"):
        json_results(path)


def test_a_run_without_gpu_benchmarks_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="holds no measured point"):
        measured_results(saved(tmp_path))
