"""Sweeps on real Dask processes.

The results are those of one machine, also after lost workers, a killed scheduler and Ctrl-C.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.sweep.runner import run_study
from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study
from tests.support import ROOT, SUPPORT

HERE = SUPPORT / "sweep"
FAMILY = "IOAWARE_TEST_FAMILY"
LIMIT_S = 240

needs_distributed = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="distributed is not installed: pip install 'ioaware[cluster]'"
)


def write_study(folder: Path, *names: str, sizes: int = 1, sources: str = '["trace"]') -> Path:
    targets = [name if ":" not in name else f"{HERE / 'targets.py'}{name}" for name in names]
    study = folder / "s.toml"
    study.write_text(
        f"[[grid]]\nsources = {sources}\ntargets = {targets}\nparams = {{ seq_len = {list(range(1, sizes + 1))} }}\n"
    )
    return study


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]), FAMILY: str(folder)}


def start(folder: Path, *command: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(folder),
        start_new_session=True,
    )


def family(folder: Path) -> list[int]:
    """Return the living processes that this test started, workers and points included."""
    wanted, found = f"{FAMILY}={folder}".encode(), list[int]()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """Yield a folder; afterwards no process may be left.

    One that is left is killed.
    """
    yield tmp_path
    deadline = time.monotonic() + 30
    while (left := family(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def records(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a store by point, their host facts removed."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT point || machine, record FROM points").fetchall()
    connection.close()
    found: dict[str, dict[str, Any]] = {}
    for key, record in rows:
        fields = json.loads(record)
        fields.get("environment", {}).pop("host", None)
        if not fields.get("environment", True):
            del fields["environment"]
        found[key] = fields
    return found


@needs_distributed
@pytest.mark.slow
def test_records_equal_those_of_one_machine(folder: Path) -> None:
    """Predictions and traces, through the command; every record names the host."""
    study = write_study(folder, "flash2", sizes=3, sources='["predict", "trace"]')
    study.write_text(study.read_text().replace("[1, 2, 3]", "[16, 32, 48], head_dim = 16, heads = 1"))
    for store, options in (("one.db", []), ("cluster.db", ["--cluster", "gpus", "--workers", "2"])):
        sweep = start(folder, "-m", "ioaware", "sweep", study, "--store", folder / store, *options)
        out, errors = sweep.communicate(timeout=LIMIT_S)
        assert sweep.returncode == 0, errors
        assert "6 ok (6 run now)" in out
        assert ("dashboard: http://127.0.0.1:" in errors) == bool(options)
    assert json.dumps(list(records(folder / "one.db").values())) == json.dumps(list(records(folder / "cluster.db").values()))
    with Store(folder / "cluster.db") as store:
        assert all(result.environment and result.environment["host"] for result in store.results())


@needs_distributed
@pytest.mark.slow
def test_dead_and_hanging_workers_cost_no_point(folder: Path) -> None:
    study = write_study(folder, ":nap", ":kill_worker_once", ":stop_worker_once", ":crash", ":kill_server", sizes=2)
    sweep = start(folder, HERE / "cluster_sweep.py", study, folder / "s.db", "gpus")
    out, errors = sweep.communicate(timeout=LIMIT_S)
    assert (sweep.returncode, errors) == (0, ""), out
    assert out.count("died or lost its connection") == 1
    assert out.count("hangs: gets no more points") == 1
    with Store(folder / "s.db") as store:
        statuses = {(result.target.rpartition(":")[2], result.status) for result in store.results()}
        assert len(store.results()) == 10
    assert statuses == {
        ("nap", "ok"),
        ("kill_worker_once", "ok"),
        ("stop_worker_once", "ok"),
        ("crash", "failed"),
        ("kill_server", "failed"),
    }


@needs_distributed
@pytest.mark.slow
def test_after_a_killed_scheduler_the_same_command_goes_on(folder: Path) -> None:
    """No point runs twice, and the second run completes the store."""
    study = write_study(folder, ":long_nap", sizes=20)
    printed: list[list[str]] = []
    for attempt in range(2):
        address = f"tcp://127.0.0.1:{free_port()}"
        quiet = ["--no-dashboard"]
        scheduler = start(folder, "-m", "distributed.cli.dask_scheduler", "--host", address, *quiet)
        worker = start(folder, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", *quiet)
        sweep = start(folder, HERE / "cluster_sweep.py", study, folder / "s.db", address, "60")
        assert sweep.stdout is not None
        keys: list[str] = []
        if attempt == 0:
            keys = [sweep.stdout.readline().strip() for _ in range(3)]
            scheduler.kill()
        out, errors = sweep.communicate(timeout=LIMIT_S)
        printed.append([*keys, *out.split()])
        for process in (scheduler, worker):
            process.terminate()
            process.communicate(timeout=60)
        if attempt == 0:
            assert sweep.returncode == 5, errors
            assert "the scheduler does not answer any more" in errors
            assert "Stored points are kept" in errors
        else:
            assert sweep.returncode == 0, errors
    first, second = map(set, printed)
    assert 3 <= len(first) < 20
    assert not first & second
    assert len(first | second) == 20


@needs_distributed
@pytest.mark.slow
def test_ctrl_c_ends_the_local_cluster(folder: Path) -> None:
    """As in a terminal: every process of the group gets the signal.

    The fixture looks for processes that are left.
    """
    study = write_study(folder, ":long_nap", sizes=200)
    sweep = start(folder, HERE / "cluster_sweep.py", study, folder / "s.db", "gpus")
    assert sweep.stdout is not None
    keys = [sweep.stdout.readline() for _ in range(2)]
    os.killpg(sweep.pid, signal.SIGINT)
    out, errors = sweep.communicate(timeout=LIMIT_S)
    assert sweep.returncode == 130, errors
    assert "of 200 points are stored" in errors
    assert "Traceback" not in errors
    with Store(folder / "s.db") as store:
        assert len(store.results()) == len([*keys, *out.split()])


@needs_distributed
def test_an_address_that_is_none_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "forward", "--store", str(tmp_path / "s.db"), "--cluster", "udp://nowhere:1"], Settings()) == 2
    assert "--cluster udp://nowhere:1: not an address" in capfd.readouterr().err


def test_without_distributed_the_remedy_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run(["sweep", "forward", "--store", str(tmp_path / "s.db"), "--cluster", "gpus"], Settings()) == 2
    assert "pip install 'ioaware[cluster]'" in capfd.readouterr().err


def test_a_point_of_another_machine_stays_open_without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ioaware.sweep.runner.gpu_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])
    study = write_study(tmp_path, ":ok", sources='["measure"]\nmachines = ["A100", "H200"]')
    with Store(tmp_path / "s.db") as store:
        outcome = run_study(find_study(str(study)), store, workers=1, entry="targets:stub")
    assert outcome.statuses == {"ok": 1}
    assert outcome.unavailable == {"measure on NVIDIA A100-SXM4-80GB": "the GPU of this machine: NVIDIA H200"}


def test_limits_of_the_kubernetes_file_are_text() -> None:
    """The schema of the operator refuses numbers there."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    limits = re.findall(r"limits:\n((?: {14}\S.*\n)+)", page)
    values = [line.rpartition(": ")[2] for block in limits for line in block.splitlines()]
    assert len(values) == 3
    assert not [value for value in values if value.isdecimal()]


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
