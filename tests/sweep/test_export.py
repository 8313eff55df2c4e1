"""Export: all records in one order, and no cell that a spreadsheet would execute."""

from __future__ import annotations

import csv
import importlib
import io
from pathlib import Path

import pytest

from ioaware.errors import UsageError, WriteError
from ioaware.result import Check, Launch, Result, Traffic
from ioaware.result_file import read_jsonl
from ioaware.sweep.export import export, write_csv

RESULTS = [
    Result("trace", "flash2", {"seq_len": 512, "causal": True}, requested=Traffic(64, 32), launches=(Launch("k", (1, 2)),)),
    Result(
        "predict",
        "flash2",
        {"seq_len": 512},
        notes=("=cmd()", "two"),
        check=Check(1e-4, 2e-3),
        time_ns=1.5,
        telemetry={"drift": -1.5},
    ),
    Result("trace", "my.py:f", {"mode": "+1", "seq_len": "long"}, status="failed", exact=False, notes=("@x", "-y")),
]


def test_jsonl_survives_a_round_trip(tmp_path: Path) -> None:
    export(RESULTS, tmp_path / "r.jsonl")
    export(reversed(RESULTS), tmp_path / "again.jsonl")
    assert list(read_jsonl(tmp_path / "r.jsonl")) == [RESULTS[1], RESULTS[0], RESULTS[2]]
    assert (tmp_path / "r.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()


def test_csv_is_flat_and_harmless(tmp_path: Path) -> None:
    export(RESULTS, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["source"] for row in rows] == ["predict", "trace", "trace"]
    assert list(rows[0])[:5] == ["source", "target", "params.seq_len", "params.causal", "params.mode"]
    assert not any(name.startswith("launches") for name in rows[0])
    assert rows[1]["requested.read_bytes"] == "64"
    assert rows[0]["check.relative_error"] == "0.0001"
    assert rows[0]["time_ns"] == "1.5"
    assert (rows[0]["notes"], rows[2]["notes"], rows[2]["params.mode"]) == ("'=cmd()\ntwo", "'@x\n-y", "'+1")


def test_parquet_holds_the_same_cells(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")
    export(RESULTS, tmp_path / "r.parquet")
    read = parquet.read_table(tmp_path / "r.parquet").to_pydict()
    assert read["requested.read_bytes"] == [None, 64, None]
    assert read["params.seq_len"] == ["512", "512", "long"]
    assert read["notes"][0] == "=cmd()\ntwo"


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UsageError, match=r"pip install 'ioaware\[parquet\]'"):
        export(RESULTS, tmp_path / "r.parquet")


def test_formats_and_places_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Formats: csv, jsonl, parquet"):
        export(RESULTS, tmp_path / "r.xlsx")
    with pytest.raises(WriteError, match="directory"):
        export(RESULTS, tmp_path, "csv")
    with pytest.raises(WriteError, match="cannot be written"):
        export(RESULTS, tmp_path / "missing" / "r.csv")


def test_a_failure_leaves_the_old_file_and_no_partial_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.csv"
    export(RESULTS[:1], path)
    before = path.read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(WriteError, match="No space left"):
        export(RESULTS, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.csv"]


@pytest.mark.parametrize(
    "start",
    ["=", "+", "-", "@", "\t=", "\r=", "\n=", " =", "\n\n@", "\u00a0=", "\x0b=", "\ufeff=", "\x00=", "\uff1d", "\uff0b"],
)
def test_no_cell_begins_a_formula(start: str) -> None:
    """Spreadsheets skip blanks before the sign; some read its full-width form."""
    buffer = io.StringIO()
    write_csv([Result("trace", f"{start}cmd()", {"a": f"{start}1"})], buffer)
    header, row = csv.reader(io.StringIO(buffer.getvalue(), newline=""))
    cells = dict(zip(header, row, strict=True))
    assert cells["target"] == f"'{start}cmd()"
    assert cells["params.a"] == f"'{start}1"
