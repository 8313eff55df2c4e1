"""Race records on disk survive a round trip, a kill and a second run.

Other files are refused.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ioaware.bench.bench_records import append_record
from ioaware.bench.race_record import Entry, Record, read, resume
from ioaware.errors import DataError, UsageError, WriteError
from tests.support.fake_race import BACK, SMALL

HERE = {"gpu": "NVIDIA H200", "commit": "abc"}
ENTRIES = (
    Entry("ioaware", "ok", "hopper: requested", "", (100.0, 101.5), 90.0, True, 0.001),
    Entry("flex", "failed", reason="it died"),
)
RECORD = Record(
    SMALL, ENTRIES, (1e14, 1.1e14), (4e12,), {"throttled": [], "sm_clock_mhz": {"min": 1900, "median": 1950, "max": 1980}}, HERE
)


def test_a_record_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    other = replace(RECORD, point=BACK)
    append_record(path, RECORD)
    append_record(path, other)
    assert read(path) == resume(path, HERE) == [RECORD, other]


def test_only_a_line_truncated_by_a_kill_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    append_record(path, RECORD)
    whole = path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole + whole[:cut])
        assert resume(path, HERE) == [RECORD]
        assert path.read_bytes() == whole
        path.write_bytes(whole[:cut])
        assert resume(path, HERE) == []


@pytest.mark.parametrize(
    "content",
    [
        '{"my": "precious", "json": [1, 2, 3]}',
        "notes without a newline at the end",
        "a line\nand half of another",
        '{"schema":1,"source":"measure","target":"flash2"}',
        '{"schema":1,"bench":"matmul","point":{}}',
        '[{"schema":1,"bench":"attention"',
    ],
)
def test_a_file_of_another_kind_is_refused_unchanged(content: str, tmp_path: Path) -> None:
    """Also after a valid record, as when the file was edited."""
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(DataError):
        resume(path, HERE)
    assert path.read_text() == content
    append_record(tmp_path / "speed.jsonl", RECORD)
    both = (tmp_path / "speed.jsonl").read_text() + content
    path.write_text(both)
    with pytest.raises(DataError):
        resume(path, HERE)
    assert path.read_text() == both


def test_a_file_of_another_run_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    append_record(path, RECORD)
    content = path.read_bytes() + path.read_bytes()[:40]
    path.write_bytes(content)
    with pytest.raises(UsageError):
        resume(path, {"gpu": "another"})
    assert path.read_bytes() == content


@pytest.mark.parametrize("there", [{"gpu": "NVIDIA H100", "commit": "abc"}, {"gpu": "NVIDIA H200"}, {**HERE, "torch": "2.12"}])
def test_points_of_another_run_are_not_mixed_in(there: dict, tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    append_record(path, RECORD)
    with pytest.raises(UsageError) as refused:
        resume(path, there)
    assert "of another run" in refused.value.what


def test_a_missing_file_has_no_records(tmp_path: Path) -> None:
    assert resume(tmp_path / "new.jsonl", HERE) == []


FORGED = {
    "schema": {"schema": 2},
    "bench": {"bench": "matmul"},
    "unknown field": {"more": 1},
    "point": {"point": {**SMALL.to_dict(), "heads": "2"}},
    "times of none": {"entries": [{"name": "a", "status": "ok"}]},
    "times of a failure": {"entries": [{"name": "a", "status": "failed", "times_ns": [1.0]}]},
    "negative time": {"entries": [{"name": "a", "status": "ok", "times_ns": [-1.0]}]},
    "bool": {"entries": [{"name": "a", "status": "ok", "times_ns": [True]}]},
    "text": {"entries": [{"name": "a", "status": "ok", "times_ns": ["1"]}]},
    "status": {"entries": [{"name": "a", "status": "good"}]},
    "host": {"entries": [{"name": "a", "status": "ok", "times_ns": [1.0], "host_us": 0}]},
    "error": {"entries": [{"name": "a", "status": "ok", "times_ns": [1.0], "relative_error": -1.0}]},
    "ceiling": {"matmul_flops_per_s": [0.0]},
    "number out of range": {"environment": {"driver": 10**400}},
    "name": {"entries": [{"name": 1, "status": "absent"}]},
    "ran": {"entries": [{"name": "a", "status": "absent", "ran": 1}]},
    "reason": {"entries": [{"name": "a", "status": "absent", "reason": ["x"]}]},
    "graph": {"entries": [{"name": "a", "status": "absent", "graph": 1}]},
    "unknown nested field": {"entries": [{"name": "a", "status": "absent", "more": 1}]},
    "unknown field of the point": {"point": {**SMALL.to_dict(), "more": 1}},
    "telemetry": {"telemetry": []},
    "a reading alone": {"telemetry": {"sm_clock_mhz": 1980}},
    "a reading without a median": {"telemetry": {"sm_clock_mhz": {"min": 1, "max": 2}}},
    "a reading that is text": {"telemetry": {"sm_clock_mhz": {"min": 1, "median": "x", "max": 2}}},
    "reasons of another type": {"telemetry": {"throttled": [5]}},
    "reasons that are no list": {"telemetry": {"unstable": "hot"}},
    "environment": {"environment": "H200"},
    "entries": {"entries": {}},
    "bool for an error": {"entries": [{"name": "a", "status": "ok", "times_ns": [1.0], "relative_error": True}]},
    "text for an error": {"entries": [{"name": "a", "status": "ok", "times_ns": [1.0], "relative_error": "0"}]},
    "schema as a bool": {"schema": True},
    "rounds of unlike length": {
        "entries": [
            {"name": "a", "status": "ok", "times_ns": [1.0]},
            {"name": "b", "status": "ok", "times_ns": [1.0, 2.0]},
        ]
    },
    "a back end twice": {"entries": [{"name": "a", "status": "absent"}, {"name": "a", "status": "absent"}]},
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_forged_records_are_refused_with_their_line(change: dict, tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    append_record(path, RECORD)
    with path.open("a") as file:
        file.write(json.dumps(RECORD.to_dict() | change) + "\n")
    with pytest.raises(DataError) as refused:
        read(path)
    assert f"{path}:2: " in refused.value.what


@pytest.mark.parametrize(
    "line", ["[]", "{", '{"schema": 1}', '{"schema": NaN}', "[" * 5000, "\x00", '{"schema": 1, "schema": 1}']
)
def test_invalid_lines_are_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DataError):
        read(path)


def test_nan_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    with pytest.raises(ValueError, match="JSON"):
        append_record(path, replace(RECORD, copy_bytes_per_s=(float("nan"),)))
    assert not path.exists()


@pytest.mark.parametrize("number", ["1e400", "Infinity", "9" * 5000])
def test_no_time_is_infinite(number: str, tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    append_record(path, RECORD)
    assert "100.0" in path.read_text()
    path.write_text(path.read_text().replace("100.0", number))
    with pytest.raises(DataError) as refused:
        read(path)
    assert len(refused.value.what) < 400


def test_a_duplicate_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "speed.jsonl"
    append_record(path, RECORD)
    path.write_text(path.read_text().replace('"status":"ok"', '"status":"failed","status":"ok"'))
    with pytest.raises(DataError, match="twice"):
        read(path)


def test_a_cut_line_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "speed.jsonl"
    append_record(path, RECORD)
    path.write_bytes(path.read_bytes()[:-3])

    def truncate(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "truncate", truncate)
    with pytest.raises(WriteError, match="Read-only file system"):
        resume(path, HERE)


def test_the_entry_of_a_back_end() -> None:
    assert RECORD.entry("flex") is ENTRIES[1]
    assert RECORD.entry("none") is None
