"""Records are read strictly: anything that `encode` would not write is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioaware import result_file
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import DataError, MachineError, WriteError
from ioaware.result import Check, Launch, Result, Timing, Traffic
from ioaware.result_file import decode, encode, read_jsonl, write_jsonl

RESULT = Result(
    "measure",
    "flash2",
    {"n": 3, "scale": 0.5, "causal": True, "dtype": "float16", "kv_len": None},
    requested=Traffic(100, 50, 0, 128, 64, "n", "n"),
    flops=7,
    extra_memory_bytes=0,
    lower_bound_bytes=1,
    time_ns=1500.0,
    notes=("a note",),
    conditions=("n >= 1",),
    launches=(Launch("k", (2, 1, 1), requested=Traffic(100, 50), flops=7, time_ns=1.5, registers=32, counters={"c": 1}),),
    check=Check(1e-4, 1e-3),
    timing=Timing(2.0, 1.0, 3.0, 0.5, 10),
    telemetry={"before": {"sm_clock_mhz": 1980, "power_mw": None}},
    environment={"gpu": "NVIDIA H200"},
)
Edit = Callable[[dict[str, Any]], object]


def test_records_survive_a_round_trip() -> None:
    assert decode(encode(RESULT)) == RESULT


def set_at(*path: str | int) -> Callable[[Any], Edit]:
    """Return an edit that sets the value at a path of keys and positions."""

    def to(value: Any) -> Edit:
        def edit(data: Any) -> None:
            for part in path[:-1]:
                data = data[part]
            data[path[-1]] = value

        return edit

    return to


@pytest.mark.parametrize(
    "edit",
    [
        set_at("surprise")(1),
        set_at("surprise")(False),
        set_at("requested", "surprise")(1),
        set_at("launches", 0, "surprise")("x"),
        set_at("launches", 0, "requested", "surprise")(0),
        set_at("check", "surprise")(1),
        set_at("timing", "surprise")(1),
    ],
    ids=lambda edit: None,
)
def test_unknown_fields_are_refused_at_any_depth(edit: Edit) -> None:
    data = json.loads(encode(RESULT))
    edit(data)
    with pytest.raises(DataError, match=r"unknown field .*surprise"):
        decode(json.dumps(data))


@pytest.mark.parametrize("schema", [0, 2, "1", 1.0, True, None, [1]])
def test_other_schemas_are_refused(schema: object) -> None:
    data = json.loads(encode(RESULT)) | {"schema": schema}
    with pytest.raises(DataError, match="schema"):
        decode(json.dumps(data))
    del data["schema"]
    with pytest.raises(DataError, match="schema"):
        decode(json.dumps(data))


@pytest.mark.parametrize(
    "edit",
    [
        set_at("flops")(-1),
        set_at("flops")(1.5),
        set_at("flops")(True),
        set_at("flops")(10**400),
        set_at("lower_bound_bytes")(-1),
        set_at("extra_memory_bytes")(-1),
        set_at("requested", "read_bytes")(-1),
        set_at("requested", "read_bytes")(10**31),
        set_at("time_ns")(-1.0),
        set_at("time_ns")(1e300),
        set_at("launches", 0, "flops")(-1),
        set_at("launches", 0, "time_ns")(-0.5),
        set_at("launches", 0, "registers")(-1),
        set_at("launches", 0, "shared_bytes")(-1),
        set_at("launches", 0, "local_bytes")(-1),
        set_at("launches", 0, "grid")([2, -1, 1]),
        set_at("launches", 0, "counters", "c")(-1),
        set_at("check", "relative_error")(-1.0),
        set_at("check", "tolerance")(-1.0),
        set_at("timing", "median_ns")(-2.0),
        set_at("timing", "count")(0),
        set_at("timing", "min_ns")(-1.0),
        set_at("params", "n")(10**400),
        set_at("telemetry", "before", "sm_clock_mhz")(10**400),
        set_at("environment", "x")(10**31),
        set_at("time_bound")({"time_ns": -1.0, "binds": "HBM"}),
        set_at("time_bound")({"time_ns": 1e300, "binds": "HBM"}),
        set_at("time_bound")({"time_ns": "1", "binds": "HBM"}),
        set_at("time_bound")({"time_ns": 1.0, "binds": 1.0}),
        set_at("time_bound")({"hbm_ns": 1.0}),
        set_at("launches", 0, "time_bound")({"time_ns": 1.0, "binds": "HBM", "l3_ns": 1.0}),
    ],
    ids=lambda edit: None,
)
def test_numbers_out_of_range_are_refused(edit: Edit) -> None:
    data = json.loads(encode(RESULT))
    edit(data)
    with pytest.raises(DataError, match="not an ioaware record"):
        decode(json.dumps(data))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 5000, "1" + "0" * 400])
@pytest.mark.parametrize("field", ["1500.0", "1980", "0.5,", "0.0001"])
def test_no_number_is_infinite(field: str, number: str) -> None:
    line = encode(RESULT)
    assert field in line
    with pytest.raises(DataError) as caught:
        decode(line.replace(field, number + field[len(field.rstrip(",")) :], 1))
    assert len(caught.value.what) < 500


@pytest.mark.parametrize(
    "old", ['"target":"flash2"', '"read_bytes":100', '"sm_clock_mhz":1980', '"tolerance":0.001', '"causal":true']
)
def test_a_duplicate_key_is_refused(old: str) -> None:
    line = encode(RESULT)
    assert old in line
    with pytest.raises(DataError, match="twice"):
        decode(line.replace(old, f"{old},{old}", 1))


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"null", b'"x"', b"{", b"\xff{}", b"[" * 100_000, '{"schema":1}'.encode("utf-16"), b"\xef\xbb\xbf{}"]
)
def test_invalid_records_are_refused_in_one_sentence(line: bytes) -> None:
    with pytest.raises(DataError) as caught:
        decode(line, "f:3")
    assert caught.value.what.startswith("f:3: not an ioaware record")
    assert "\n" not in caught.value.what


def test_a_lone_surrogate_is_refused() -> None:
    """JSON can spell a lone surrogate, which no file or terminal can encode."""
    with pytest.raises(DataError, match="character"):
        decode(encode(RESULT).replace("a note", "\\ud800"))
    assert decode(encode(RESULT).replace("a note", "\\ud83d\\ude00")).notes == ("\U0001f600",)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Result("trace", "t", flops=-1),
        lambda: Result("trace", "t", time_ns=float("inf")),
        lambda: Result("trace", "t", time_ns=float("nan")),
        lambda: Launch("k", time_ns=float("inf")),
        lambda: Timing(float("inf"), 1.0, 2.0, 1.0, 5),
        lambda: Timing(1.0, 1.0, 2.0, float("nan"), 5),
        lambda: Timing(5.0, 1.0, 2.0, 1.0, 5),
    ],
)
def test_no_source_can_make_an_impossible_number(bad: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        bad()


def test_values_that_cannot_be_read_back_are_not_written() -> None:
    with pytest.raises(ValueError, match="range"):
        encode(Result("trace", "t", {"n": 10**31}))
    with pytest.raises(ValueError, match="JSON"):
        encode(Result("trace", "t", telemetry={"x": float("inf")}))


def test_a_file_names_its_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(encode(RESULT) + "\n\n" + encode(RESULT)[:-4] + "\n")
    records = read_jsonl(path)
    assert next(records) == RESULT
    with pytest.raises(DataError, match=r"r\.jsonl:3: not an ioaware record"):
        next(records)


def test_a_file_too_large_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with path.open("wb") as file:
        file.truncate(result_file.MAX_BYTES + 1)
    with pytest.raises(DataError, match="more than the"):
        list(read_jsonl(path))


def test_an_endless_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device has no size to check."""
    monkeypatch.setattr(result_file, "MAX_BYTES", 1000)
    with pytest.raises(DataError, match="more than the 1000"):
        list(read_jsonl(Path("/dev/zero")))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.jsonl: cannot be read \(No such file"):
        list(read_jsonl(tmp_path / "none.jsonl"))


@pytest.mark.parametrize(
    "command", ["compare {0} {0}", "diff {0} {0}", "accuracy --predictions {0}", "history {0} -o page.html"]
)
def test_a_path_that_the_system_refuses_is_no_bug(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a name that is too long, or a directory without permission."""
    assert run(command.format("n" * 300 + ".json").split(), Settings()) == 6
    assert "cannot be read (File name too long)" in capsys.readouterr().err


def test_reading_without_msgspec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that only measures."""
    line = encode(RESULT)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(MachineError, match="msgspec is not installed") as error:
        decode(line)
    assert error.value.remedy == "pip install msgspec"


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="cannot be written"):
        write_jsonl(tmp_path / "none" / "r.jsonl", [RESULT])
    write_jsonl(tmp_path / "r.jsonl", [RESULT, RESULT])
    assert list(read_jsonl(tmp_path / "r.jsonl")) == [RESULT, RESULT]
