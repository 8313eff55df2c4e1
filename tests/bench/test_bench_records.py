"""What records of every bench share: lines, their errors, and other runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ioaware.bench.bench_records import append_record, as_record, check_same_run, read_known, read_records
from ioaware.errors import DataError, MachineError, UsageError, WriteError


@dataclass(frozen=True)
class Walk:
    steps: int
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse(data: dict[str, Any]) -> Walk:
    return as_record(data, Walk)


def test_records_come_back_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "walks.jsonl"
    walks = [Walk(3, {"gpu": "H200"}), Walk(4)]
    for walk in walks:
        append_record(path, walk)
    assert read_records(path, parse, "a walk") == walks


@pytest.mark.parametrize("line", ["[1]", "3", '{"steps": "3"}', '{"steps": 1, "steps": 2}', "{", '{"steps": NaN}'])
def test_a_line_of_anything_else_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "walks.jsonl"
    path.write_text('{"steps": 3}\n' + line + "\n")
    with pytest.raises(DataError, match=r"walks\.jsonl:2: not a record of a walk"):
        read_records(path, parse, "a walk")


def test_without_msgspec_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(MachineError, match="msgspec is not installed"):
        parse({"steps": 3})


@pytest.mark.parametrize("now", [{"gpu": "H100"}, {}, {"gpu": "H200", "driver": "590"}])
def test_points_of_another_run_are_refused(now: dict[str, str]) -> None:
    known = [Walk(3, {"gpu": "H200"})]
    check_same_run(None, known, {"gpu": "H200"})
    with pytest.raises(UsageError, match="points of another run"):
        check_same_run(None, known, now)


def test_records_that_a_run_adds_to(tmp_path: Path) -> None:
    path = tmp_path / "walks.jsonl"

    def read(path: Path) -> list[Walk]:
        return read_records(path, parse, "a walk")

    assert read_known(path, read) == []
    path.touch()
    assert read_known(path, read) == []
    append_record(path, Walk(3))
    assert read_known(path, read) == [Walk(3)]
    path.write_bytes(path.read_bytes().rstrip())
    with pytest.raises(DataError, match="its last line has no end"):
        read_known(path, read)
    with pytest.raises(WriteError):
        read_known(tmp_path, read)
