"""Runs of the own cases are found again, until what computes them changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ioaware import disk_cache
from ioaware.result import Result
from ioaware.result_file import encode
from ioaware.sweep import kept_runs
from ioaware.sweep.points import Point, make_point
from ioaware.sweep.pool import Answer


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOAWARE_CACHE_DIR", str(tmp_path / "cache"))


def point(seq_len: int = 64) -> Point:
    return make_point("trace", "flash2", {"seq_len": seq_len})


def answer(one: Point) -> Answer:
    return Answer(one, encode(Result(one.source, one.target, one.params, exact=True)), "ok")


def test_a_run_is_found_again_at_its_point_alone() -> None:
    kept_runs.keep(answer(point()))
    found = kept_runs.find(point())
    assert found is not None
    assert (found.record, found.status, found.point.key) == (answer(point()).record, "ok", point().key)
    assert kept_runs.find(point(128)) is None
    assert kept_runs.find(replace(point(), source="derive")) is None


@pytest.mark.parametrize("changed", ["code", "library", "variable"])
def test_a_run_of_another_code_is_not_found(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_runs.keep(answer(point()))
    if changed == "code":
        monkeypatch.setattr(disk_cache, "own_code", lambda: "another")
    elif changed == "library":
        monkeypatch.setattr(kept_runs, "installed_version", lambda name: "0.1")
    else:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert kept_runs.find(point()) is None


def test_failures_and_code_of_others_are_not_kept(tmp_path: Path) -> None:
    kept_runs.keep(replace(answer(point()), status="failed"))
    kept_runs.keep(Answer(point(), json.dumps({"error": "no", "exit_code": 2}), "failed"))
    assert kept_runs.find(point()) is None
    file = tmp_path / "mine.py"
    file.write_text("def f(n=8): ...\n")
    theirs = make_point("trace", f"{file}:f", {"n": 8})
    kept_runs.keep(answer(theirs))
    assert kept_runs.find(theirs) is None
