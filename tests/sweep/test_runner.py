"""Sweeps: which points run, and which run again.

There is one failed record for every crash.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ioaware.errors import DataError, UsageError
from ioaware.result import Params, Result, Source, Status
from ioaware.sweep import execute, runner
from ioaware.sweep.claims import Claims, claim_key
from ioaware.sweep.points import Point
from ioaware.sweep.pool import Answer
from ioaware.sweep.process_tree import MARK
from ioaware.sweep.runner import Outcome, SweepInterruptedError, run_study
from ioaware.sweep.store import Store
from ioaware.sweep.study import Study, parse_study
from tests.support import SUPPORT

HERE = SUPPORT / "sweep"
STUB = "targets:stub"
FAMILY = "IOAWARE_TEST_FAMILY"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])  # workers import `targets` from the path of this process
    monkeypatch.setenv(FAMILY, str(tmp_path))
    return Store(tmp_path / "s.db")


def study_of(*names: str, source: str = "trace", sizes: int = 1) -> Study:
    targets = [f"{HERE / 'targets.py'}:{name}" for name in names]
    text = f'[[grid]]\nsources = ["{source}"]\ntargets = {targets}\nparams = {{ seq_len = {list(range(1, sizes + 1))} }}'
    return parse_study(text, name="s", where="s.toml")


def survivors() -> list[int]:
    """Return the living processes that this test's points started."""
    wanted = {f"{FAMILY}={os.environ[FAMILY]}".encode(), MARK.encode()}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted <= {*variables, *(variable.partition(b"=")[0] for variable in variables)}:
            found.append(int(entry.name))
    return found


FAILURES: Mapping[str, tuple[str, str]] = {
    "crash": ("exit code 1", "RuntimeError: planted"),
    "leave": ("exit code 0 and no result", ""),
    "system_exit": ("exit code 1", "SystemExit: 0"),
    "segfault": ("killed by SIGSEGV", ""),
    "hang": ("ran into the time limit", ""),
    "hang_ignoring_sigterm": ("ran into the time limit", ""),
    "flood": ("exit code 3", "the last line"),
    "eat_memory": ("exit code 1", "MemoryError"),
    "out_of_memory": ("killed by SIGKILL (out of memory?)", ""),
    "kill_server": ("the process that isolates points died", ""),
}


def test_every_failure_is_one_record_and_the_rest_complete(store: Store) -> None:
    study = study_of("ok", *FAILURES, "nap")
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    outcome = run_study(study, store, workers=4, timeout_s=3.0, memory_bytes=2**28, entry=STUB)
    took_s = time.monotonic() - start
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib

    assert outcome.statuses == {"ok": 2, "failed": len(FAILURES)}
    results = store.results(study.points)
    assert len(results) == len(study.points)
    for result in results:
        name = result.target.rpartition(":")[2]
        if name in FAILURES:
            problem, text = FAILURES[name]
            assert result.status == "failed"
            assert problem in result.notes[0]
            assert text in "".join(result.notes[1:])
            assert sum(map(len, result.notes)) < 5000
        else:
            assert result.status == "ok"
    assert took_s < 30
    assert grown_kib < 100 * 1024
    deadline = time.monotonic() + 5
    while survivors() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert survivors() == []


@pytest.mark.parametrize(("status", "again"), [("failed", 1), ("unstable", 1), ("impossible", 1), ("throttled", 0), ("ok", 0)])
def test_a_retry_runs_points_whose_bytes_do_not_hold(store: Store, status: Status, again: int) -> None:
    """The bytes of a throttled point hold."""
    (point,) = study_of("ok").points
    store.add(point, Result(point.source, point.target, point.params, status=status))
    assert run_study(study_of("ok"), store, entry=STUB).statuses == {}
    assert sum(run_study(study_of("ok"), store, entry=STUB, retry_failed=True).statuses.values()) == again
    assert store.status(point) == ("ok" if again else status)


@pytest.mark.parametrize("name", ["leave_child", "leave_child_apart"])
def test_a_good_point_leaves_no_process(store: Store, name: str) -> None:
    """While the sweep runs, not only at its end."""
    alive: list[list[int]] = []

    def progress(done: int, total: int, point: Point, status: str) -> None:
        if point.target.endswith(f":{name}"):
            deadline = time.monotonic() + 5
            while len(sleepers()) and time.monotonic() < deadline:
                time.sleep(0.05)
            alive.append(sleepers())

    outcome = run_study(study_of(name, "nap"), store, workers=1, entry=STUB, progress=progress)
    assert outcome.statuses == {"ok": 2}
    assert alive == [[]]


def sleepers() -> list[int]:
    """Return the surviving `sleep` processes."""
    return [pid for pid in survivors() if Path(f"/proc/{pid}/comm").read_text() == "sleep\n"]


def test_a_second_run_runs_nothing_and_a_retry_only_failed_points(store: Store) -> None:
    study = study_of("ok", "leave", sizes=2)
    assert run_study(study, store, entry=STUB).statuses == {"ok": 2, "failed": 2}
    assert run_study(study, store, entry=STUB) == Outcome(total=4, already=4, failed_before=2)
    retried = run_study(study, store, entry=STUB, retry_failed=True)
    assert (retried.already, retried.statuses) == (2, {"failed": 2})


def test_a_point_is_stored_before_the_next_one_starts(store: Store) -> None:
    study = study_of("ok", sizes=6)
    seen: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, point: Point, status: str) -> None:
        with Store(store.path, readonly=True) as reader:
            assert reader.status(point) == status
        seen.append((done, total, status))

    run_study(study, store, workers=1, progress=progress, entry=STUB)
    assert seen == [(done, 6, "ok") for done in range(1, 7)]


def test_a_machine_that_cannot_measure_leaves_those_points_open(store: Store) -> None:
    study = Study("s", "s", (*study_of("ok", source="measure", sizes=5).points, *study_of("ok", sizes=2).points))
    outcome = run_study(study, store, workers=1, entry="targets:stub_errors")
    assert outcome.unavailable == {"measure": "no counters here\n  Ask for them."}
    assert outcome.statuses == {"failed": 2}, "a usage error fails its point and does not stop the source"
    assert [result.source for result in store.results()] == ["trace", "trace"]


def test_predictions_run_in_this_process(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_source(source: Source, target: str, params: Params) -> Result:
        if params["seq_len"] == 2:
            raise ZeroDivisionError("planted")
        return Result(source, target, params)

    monkeypatch.setattr(execute, "run_source", run_source)
    text = '[[grid]]\nsources = ["predict"]\ntargets = ["flash1"]\nparams = { seq_len = [1, 2, 3] }'
    outcome = run_study(parse_study(text, name="s", where="s"), store)
    assert outcome.statuses == {"ok": 2, "failed": 1}
    assert outcome.failed[0][1] == "ZeroDivisionError: planted"


def predictions(count: int) -> Study:
    text = f'[[grid]]\nsources = ["predict"]\ntargets = ["flash2"]\nparams = {{ seq_len = {list(range(16, 16 + count))} }}'
    return parse_study(text, name="s", where="s.toml")


def test_predictions_become_durable_in_chunks_and_before_they_are_reported(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    save_all = store.save_all

    def counting(records: list[tuple[Point, str, Status, str]]) -> None:
        sizes.append(len(records))
        save_all(records)

    monkeypatch.setattr(store, "save_all", counting)
    monkeypatch.setattr(runner, "CHUNK", 4)
    monkeypatch.setattr(runner, "CHUNK_S", 1000.0)
    seen: list[Status | None] = []
    with Store(store.path, readonly=True) as other:
        run_study(predictions(10), store, progress=lambda done, total, point, status: seen.append(other.status(point)))
    assert sizes == [4, 4, 2]
    assert seen == ["ok"] * 10


def test_ctrl_c_stores_the_predictions_that_are_ready(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    study = predictions(6)
    predict = runner.predict_answer

    def interrupted(point: Point) -> Answer:
        if point is study.points[4]:
            raise KeyboardInterrupt
        return predict(point)

    monkeypatch.setattr(runner, "predict_answer", interrupted)
    with pytest.raises(SweepInterruptedError, match="4 of 6 points are stored"):
        run_study(study, store)
    assert len(store.results()) == 4


def test_ctrl_c_keeps_finished_points(store: Store) -> None:
    study = study_of("ok", sizes=5)

    def progress(done: int, total: int, point: Point, status: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(SweepInterruptedError, match=r"3 of 5 points are stored .*\n  The same command") as caught:
        run_study(study, store, workers=1, progress=progress, entry=STUB)
    assert caught.value.exit_code == 130
    assert len(store.results()) == 3
    assert survivors() == []
    assert run_study(study, store, entry=STUB).already == 3


def test_impossible_options_are_refused(store: Store) -> None:
    with pytest.raises(UsageError, match=r"has no source 'measure'\n  Its sources: trace"):
        run_study(study_of("ok"), store, sources=["measure"])
    for workers, timeout_s in ((0, 1.0), (1, 0.0), (1, float("nan"))):
        with pytest.raises(UsageError, match="at least one worker"):
            run_study(study_of("ok"), store, workers=workers, timeout_s=timeout_s)


def test_two_sweeps_on_one_store_run_every_point_once(tmp_path: Path) -> None:
    """Each waits for points that the other is running.

    The later one does not report points that were stored when it began.
    """
    study, log = tmp_path / "s.toml", tmp_path / "log"
    sizes = list(range(1, 31))
    study.write_text(
        f'[[grid]]\nsources = ["trace"]\ntargets = ["{HERE / "targets.py"}:nap"]\nparams = {{ seq_len = {sizes} }}\n'
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "IOAWARE_TEST_LOG": str(log)}
    sweeps = [
        subprocess.Popen(
            [sys.executable, HERE / "sweeping.py", study, tmp_path / "s.db", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for _ in range(2)
    ]
    outputs = [sweep.communicate(timeout=60) for sweep in sweeps]
    assert [(sweep.returncode, error) for sweep, (_, error) in zip(sweeps, outputs, strict=True)] == [(0, b"")] * 2
    assert max(len(out.splitlines()) for out, _ in outputs) == 30, "the earlier one reports the end of every point"
    assert len(log.read_text().splitlines()) == 30
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log", "s.db", "s.toml"]


def test_predictions_of_another_sweep_are_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stayed open, with the exit code of a source that cannot run here."""
    text = '[[grid]]\nsources = ["predict"]\ntargets = ["flash2"]\nparams = { seq_len = [512, 1024], head_dim = 64, heads = 1 }'
    refused: list[str] = []

    def take(claims: Claims, key: str) -> bool:
        if not refused:
            refused.append(key)
            return False
        return plain(claims, key)

    plain = Claims.take
    monkeypatch.setattr(Claims, "take", take)
    outcome = run_study(parse_study(text, name="s", where="s.toml"), store)
    assert refused
    assert outcome.done == 2
    assert len(store.results()) == 2


def test_a_point_whose_sweep_was_killed_is_run_by_the_other(store: Store, tmp_path: Path) -> None:
    study = study_of("ok", sizes=3)
    holding = "import sys, time\nfrom pathlib import Path\nfrom ioaware.sweep.claims import Claims\n"
    holding += (
        "claims = Claims(Path(sys.argv[1]))\nprint([claims.take(key) for key in sys.argv[2:]], flush=True); time.sleep(60)"
    )
    keys = [claim_key(study.points[1], ""), claim_key(study.points[2], "")]
    with subprocess.Popen([sys.executable, "-c", holding, store.path, *keys], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"[True, True]\n"
        threading.Timer(1.0, other.kill).start()
        began = time.monotonic()
        outcome = run_study(study, store, workers=1, entry=STUB)
    assert outcome.statuses == {"ok": 3}
    assert time.monotonic() - began >= 0.9, "the sweep did not wait"


def test_rows_changed_behind_the_store_stop_the_sweep(store: Store) -> None:
    study = study_of("ok", sizes=3)
    run_study(study, store, workers=1, entry=STUB)
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE points SET record = replace(record, '64', '63')")
    with pytest.raises(DataError, match="is not what was saved"):
        run_study(study, store, workers=1, entry=STUB)


def test_what_a_measurement_tuned_is_derived(store: Store) -> None:
    """Measured first, derived with its configuration.

    A derivation of another configuration is made again.
    """
    target = f"{HERE / 'targets.py'}:ok"
    text = f'[[grid]]\nsources = ["derive", "measure"]\ntargets = ["{target}"]\nparams = {{ seq_len = [1] }}'
    study = parse_study(text, name="s", where="s.toml")
    run_study(study, store, sources=["derive"], workers=1, entry="targets:tuned_stub")
    derived, measured = (next(point for point in study.points if point.source == source) for source in ("derive", "measure"))
    assert store.tuning(derived) == {"kernel:BLOCK": 64}
    run_study(study, store, workers=1, entry="targets:tuned_stub")
    assert store.tuning(measured) == {"kernel:BLOCK": 128, "kernel:num_warps": 8}
    assert store.tuning(derived) == store.tuning(measured)
    assert run_study(study, store, workers=1, entry="targets:tuned_stub").already == 2
