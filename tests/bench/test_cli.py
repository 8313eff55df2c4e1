"""`ioaware bench attention` on a fake GPU.

The tests cover tables, JSON, records, budgets and exit codes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ioaware.bench.attention_points
import ioaware.bench.gpu_setup
import ioaware.bench.precompile
import ioaware.bench.registry
import ioaware.measurement.nvml
from ioaware.bench.race_record import read
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from tests.support.fake_race import FakeDevice, crashing, ends, exact, session, wrong
from tests.support.fakes import FakeNvml

COMMAND = [
    "bench",
    "attention",
    "--pass",
    "forward",
    "--head-dim",
    "8",
    "--seq-len",
    "16",
    "--seq-len",
    "32",
    "--dtype",
    "float16",
]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Set up a fake GPU and small points. Return the list of back ends to race."""
    field: list[Any] = []
    monkeypatch.setattr(ioaware.bench.attention_points, "TOKENS", 32)
    monkeypatch.setattr(ioaware.bench.attention_points, "HIDDEN", 16)
    monkeypatch.setattr(
        ioaware.bench.registry, "chosen", lambda names, tutorial: [e for e in field if not names or e.name in names]
    )
    monkeypatch.setattr(ioaware.measurement.nvml, "load_nvml", FakeNvml)
    monkeypatch.setattr(ioaware.bench.gpu_setup, "here", lambda gpu: {"gpu": "NVIDIA H200", "commit": "abc"})
    costs = {"ioaware": 100.0, "cudnn": 120.0, "flash": 90.0}
    monkeypatch.setattr(ioaware.bench.gpu_setup, "open_session", lambda gpu, environment: session(FakeDevice(costs)))
    return field


def test_records_table_and_goals(machine: list, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine += ends(ioaware=exact, cudnn=exact)
    path = tmp_path / "speed.jsonl"
    assert run([*COMMAND, "-o", str(path)], Settings()) == 0
    shown = capsys.readouterr()
    assert "4 points, 7 rounds of ioaware, cudnn: about" in shown.err
    assert "d=8 causal N=32" in shown.out
    assert "1.200" in shown.out
    assert shown.out.startswith("NVIDIA H200, commit abc\n")
    records = read(path)
    assert [r.point.label for r in records] == [f"forward d=8{m} N={n}" for m in ("", " causal") for n in (16, 32)]
    assert all(len(entry.times_ns) == 7 for r in records for entry in r.entries)


def test_the_second_run_goes_on_where_the_first_stopped(
    machine: list, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine += ends(ioaware=exact, cudnn=exact)
    path = tmp_path / "speed.jsonl"
    assert run([*COMMAND, "--no-causal", "--rounds", "2", "-o", str(path)], Settings()) == 0
    first = path.read_text()
    assert run([*COMMAND, "--rounds", "3", "-o", str(path)], Settings()) == 0
    assert path.read_text().startswith(first)
    assert [len(r.entries[0].times_ns) for r in read(path)] == [2, 2, 3, 3]
    assert "2 points, 3 rounds" in capsys.readouterr().err


def test_json_has_every_point_with_its_ratio_and_the_goals(machine: list, capsys: pytest.CaptureFixture[str]) -> None:
    machine += ends(ioaware=exact, cudnn=exact, flash=crashing)
    assert run([*COMMAND, "--json"], Settings()) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema"], data["bench"], len(data["points"])) == (1, "attention", 4)
    point = data["points"][0]
    assert point["point"] == {
        "pass": "forward", "batch": 2, "heads": 2, "kv_heads": 2, "seq_len": 16, "kv_len": 16, "head_dim": 8, "causal": False,
        "dtype": "float16",
    }  # fmt: skip
    assert point["best_other"] == "cudnn"
    assert point["ratio"]["median"] == pytest.approx(1.2)
    assert point["share_of_ceiling"] > 0
    assert point["entries"][2] == {
        "name": "flash",
        "status": "failed",
        "reason": "RuntimeError: out of shared memory",
        "graph": False,
    }
    assert {goal["met"] for goal in data["goals"]} == {True}


@pytest.mark.parametrize(("prepare", "code"), [(wrong, 1), (crashing, 3)])
def test_the_exit_code_depends_on_ioawares_back_ends_alone(machine: list, prepare: Any, code: int) -> None:
    machine += ends(ioaware=exact, cudnn=prepare)
    assert run(COMMAND, Settings()) == 0
    machine[:] = ends(ioaware=prepare, cudnn=exact)
    assert run(COMMAND, Settings()) == code


def test_ctrl_c_keeps_and_shows_finished_points(
    machine: list, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "speed.jsonl"
    calls = 0

    def interrupted(point: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return exact(point)

    machine[:] = ends(ioaware=interrupted, cudnn=exact)
    assert run([*COMMAND, "-o", str(path)], Settings()) == 130
    shown = capsys.readouterr()
    assert "interrupted after 2 of 4 points; the same command continues" in shown.err
    assert len(read(path)) == 2
    assert "d=8 N=32" in shown.out


def test_no_point_begins_after_the_budget(
    machine: list, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine += ends(ioaware=exact, cudnn=exact)
    times = iter([0.0, *range(1, 100)])
    monkeypatch.setattr("ioaware.cli.commands.bench.time.monotonic", lambda: next(times))
    assert run([*COMMAND, "--seconds", "2"], Settings()) == 0
    assert "2 s are over: 2 of 4 points left; with -o FILE" in capsys.readouterr().err


def test_without_a_gpu_the_exit_code_is_5(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ioaware.measurement.nvml, "load_nvml", lambda: FakeNvml(count=0))
    assert run(["bench", "attention"], Settings()) == 5
    shown = capsys.readouterr()
    assert shown.err.startswith("ioaware: no NVIDIA GPU is visible here\n")
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["matmul"], "'matmul' is not one of 'attention', 'training'"),
        (["attention", "--backends", "cudnn,nope"], "no such back end"),
        (["attention", "--pass", "sideways"], "no such pass"),
        (["attention", "--rounds", "0"], "--rounds"),
        (["attention", "--tutorial", "nowhere.py"], "nowhere.py: no such file"),
        (["attention", "--head-dim", "x"], "--head-dim"),
    ],
)
def test_usage(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *arguments], Settings()) == 2
    assert word in capsys.readouterr().err
