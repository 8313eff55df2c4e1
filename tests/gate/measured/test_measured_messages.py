"""Each message of a comparison of measured runs, in full, and its limits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import DataError, IoawareError
from ioaware.gate.measured.comparison import compare_runs, measured_results
from ioaware.gate.measured.json_results import json_results
from ioaware.gate.measured.measured_row import Compared, compare_rows
from ioaware.gate.measured.rank_intervals import interval
from ioaware.gate.verdict import BaselineError
from ioaware.result import Check, Result, Timing, Traffic
from ioaware.result_file import write_jsonl
from tests.support.measured_runs import point


def raised(call: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(IoawareError) as error:
        call(*arguments)
    return error.value.what, error.value.remedy


def test_files_without_measured_points(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    assert raised(measured_results, path) == (f"there is no file {path}", "Measure it: ioaware sweep STUDY --store FILE.")
    write_jsonl(path, [replace(point(), source="predict")])
    remedy = "Sweep a study with the source measure into it."
    assert raised(measured_results, path) == (f"{path} holds no measured point", remedy)


def test_a_store_is_read_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ioaware.sweep.store import Store

    path = tmp_path / "run.db"
    with Store(path):
        pass
    opened: list[Any] = []
    monkeypatch.setattr("ioaware.sweep.store.Store", lambda at, **how: opened.append(how) or Store(at, **how))
    path.chmod(0o400)
    before = path.stat().st_mtime_ns
    with pytest.raises(BaselineError, match="holds no measured point"):
        measured_results(path)
    assert path.stat().st_mtime_ns == before
    assert opened == [{"readonly": True}]  # root may write to any file
    with pytest.raises(IoawareError):
        measured_results(tmp_path)  # a folder is no store


def test_points_on_one_side() -> None:
    many = [point(at) for at in range(1, 6)]
    lines = "add n=2, add n=3, add n=4"
    assert raised(compare_runs, many, many[:1]) == (f"4 points are missing in the new run: {lines}", "Measure them.")
    assert raised(compare_runs, many[:1], many) == (f"4 points are missing in the old run: {lines}", "Measure them.")
    twice = "add n=1 was measured twice in one run"
    assert raised(compare_runs, [many[0], point(1)], many[:1]) == (twice, "Compare runs of one machine each.")


def test_a_point_names_its_target_and_parameters() -> None:
    one = replace(point(), params={"n": 1, "causal": True, "none": None})
    found = compare_rows(one, one, None, level=0.01, least=0.01, cross_device=False)
    assert found == Compared("add", "n=1, causal=True", found.bytes_verdict, "equal", None, "")
    wrong = replace(one, check=Check(1.0, 0.1))
    found = compare_rows(one, wrong, None, level=0.01, least=0.01, cross_device=False)
    assert found == Compared("add", "n=1, causal=True", found.bytes_verdict, "an output is wrong", None, "")
    failed = compare_rows(replace(one, status="unstable"), one, None, level=0.01, least=0.01, cross_device=False)
    assert failed.bytes_reason == "a point is unstable"
    bare = replace(one, requested=None, hbm=None)
    assert compare_rows(bare, bare, None, level=0.01, least=0.01, cross_device=False).bytes_reason == "neither side has bytes"


@pytest.mark.parametrize("name", ["read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes"])
def test_each_count_of_bytes_is_compared(name: str) -> None:
    old, new = (
        Result("measure", "k", requested=Traffic(**{"read_bytes": 1, "write_bytes": 1, name: count})) for count in (100, 101)
    )
    found = compare_rows(old, new, None, level=0.01, least=0.01, cross_device=False)
    label = name.removesuffix("_bytes").replace("_", " ")
    assert (str(found.bytes_verdict), found.bytes_reason) == ("WORSE", f"requested {label}s: 100 -> 101 (+1.0 %)")
    again = compare_rows(new, old, None, level=0.01, least=0.01, cross_device=False)
    assert (str(again.bytes_verdict), again.bytes_reason) == ("BETTER", f"requested {label}s: 101 -> 100 (-1.0 %)")


def timed(*rounds: float, before: Any = 1980, after: Any = 1980) -> Result:
    low, high = min(rounds), max(rounds)
    clocks = {when: {"sm_clock_mhz": clock} for when, clock in (("before", before), ("after", after))}
    return replace(point(), timing=Timing(low, low, high, low, len(rounds), rounds), telemetry=clocks)


def time_of(old: Result, new: Result, again: Result | None = None) -> tuple[str, str]:
    found = compare_rows(old, new, again, level=0.01, least=0.01, cross_device=False)
    return str(found.time_verdict), found.time_reason


def test_limits_of_a_change_of_time() -> None:
    """A change below 1 % is none; SAME is within 2 %, the limits among it."""
    flat = [100.0] * 9
    cases = {
        101.0: ("WORSE", "+1.0 % (+1.0 to +1.0 %)"),
        100.9: ("SAME", "+0.9 % (+0.9 to +0.9 %)"),
        99.0: ("BETTER", "-1.0 % (-1.0 to -1.0 %)"),
        99.1: ("SAME", "-0.9 % (-0.9 to -0.9 %)"),
    }
    for time, expected in cases.items():
        assert time_of(timed(*flat), timed(*[time] * 9)) == expected, time
    wide = [98.0] * 4 + [100.0] + [102.0] * 4
    assert time_of(timed(*flat), timed(*wide)) == ("SAME", "+0.0 % (-2.0 to +2.0 %)")
    wider = [97.9] * 4 + [100.0] + [102.0] * 4
    assert time_of(timed(*flat), timed(*wider))[0] == "UNSURE"
    mixed = [100.0] * 4 + [102.0] * 5
    assert time_of(timed(*flat), timed(*mixed)) == ("SAME", "+2.0 % (+0.0 to +2.0 %)")  # no change is not excluded


def test_clocks_are_the_mean_of_those_known() -> None:
    """30 % fewer cycles at a lower clock are no more time in cycles."""
    old = timed(*[100.0] * 9, before=2000, after=1000)
    new = timed(*[150.0] * 9, before=1000, after=1000)
    assert time_of(old, new) == ("UNSURE", "+50.0 % (+0.0 to +50.0 %)")  # 1500 MHz to 1000 MHz: as many cycles
    half = timed(*[150.0] * 9, before=1000, after=None)
    assert time_of(old, half) == ("UNSURE", "+50.0 % (+0.0 to +50.0 %)")
    for unknown in (None, "1980", 0, -1, math.inf):
        blind = timed(*[150.0] * 9, before=unknown, after=unknown)
        assert time_of(old, blind) == ("UNSURE", "no clocks on record to confirm it in cycles"), unknown
    slow = timed(*[150.0] * 9, before=1, after=1)
    assert time_of(timed(*[100.0] * 9, before=1, after=1), slow) == ("WORSE", "+50.0 % (+50.0 to +50.0 %)")


def test_an_interval_needs_rounds_of_both() -> None:
    assert interval([1.0], [], 0.4) is None
    assert interval([], [1.0], 0.4) is None
    assert interval([1.0] * 9, [0.0] * 9, 0.1) is None
    assert interval([1.0] * 9, [math.inf] * 9, 0.1) is None


BENCHMARK: dict[str, Any] = {"fullname": "t", "extra_info": {"gpu": "H200"}, "stats": {"data": [1.5e-5, 1.5e-5]}}
DAMAGE = {
    "fewer than two rounds": {"stats": {"data": [1.0]}},
    "a round is no positive number of seconds": {"stats": {"data": [1.0, 0]}},
    "'[]' is no object": {"stats": []},
    f"fullname is '{'1' * 60}'": {"fullname": int("1" * 30) * 10**30 + int("1" * 30)},
    f"'{'a' * 40}' is no object": {"extra_info": "a" * 60},
}


@pytest.mark.parametrize("why", DAMAGE)
def test_what_is_wrong_with_a_benchmark(tmp_path: Path, why: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"benchmarks": [{**BENCHMARK, **DAMAGE[why]}]}))
    remedy = "Write them: ioaware measure --json -o FILE, or pytest --benchmark-json FILE."
    if why.startswith("fullname"):
        path.write_text(json.dumps({"benchmarks": [{**BENCHMARK, "fullname": ["1" * 70]}]}))
        with pytest.raises(DataError, match=r"fullname is \"\['1{58}\""):
            json_results(path)
        return
    assert raised(json_results, path) == (f"{path}: no measured results ({why})", remedy)


def test_hbm_bytes_and_nanoseconds_of_a_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    info = {**BENCHMARK["extra_info"], "hbm_read_bytes": 7, "hbm_write_bytes": 8, "hbm_atomic_bytes": 9}
    path.write_text(json.dumps({"benchmarks": [{**BENCHMARK, "extra_info": info}]}))
    (found,) = json_results(path)
    assert (found.hbm, found.requested, found.telemetry) == (Traffic(7, 8, 9), None, None)
    assert found.timing is not None
    assert found.timing.median_ns == 1.5e-5 * 1e9
