"""kill -9 at any moment: the store stays readable, no acknowledged point is lost, and the sweep goes on where it was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study

HERE = Path(__file__).parent
KILLS, POINTS, WORKERS = 20, 40, 2
MARK = "IOAWARE_TEST_KILL"


def start(study: Path, store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, HERE / "sweeping.py", study, store, str(WORKERS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), MARK: str(os.getpid())},
    )


def descendants() -> int:
    """Processes that any sweep of this test started and that still live."""
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            count += entry.name.isdigit() and f"{MARK}={os.getpid()}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
    return count


def test_killed_at_random_moments(tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(
        f'[[grid]]\nsources = ["trace"]\ntargets = ["{HERE / "targets.py"}:nap"]\n'
        f"params = {{ seq_len = {list(range(1, POINTS + 1))} }}\n"
    )
    points = find_study(str(study)).points
    rng = random.Random(0)
    number, in_time, acknowledged, stored = 0, 0, set[str](), 0
    for _ in range(KILLS):
        path = tmp_path / f"{number}.db"
        sweep = start(study, path)
        time.sleep(rng.uniform(0.1, 1.0))
        sweep.send_signal(signal.SIGKILL)
        out, _ = sweep.communicate(timeout=10)
        said = out.decode().split()
        assert not acknowledged & set(said), "a stored point was asked again"
        acknowledged |= set(said)
        if path.exists():
            with Store(path, readonly=True) as store:
                kept = {point.key for point in points if store.status(point) == "ok"}
            assert acknowledged <= kept
            assert len(kept) >= stored
            in_time += 0 < len(kept) < POINTS
            stored = len(kept)
        if stored == POINTS:
            number, acknowledged, stored = number + 1, set[str](), 0
    assert in_time > 0, "no kill came in the middle of a sweep"

    finish = start(study, tmp_path / f"{number}.db")
    assert finish.communicate(timeout=30)[1] == b""
    assert finish.returncode == 0
    undisturbed = start(study, tmp_path / "undisturbed.db")
    assert len(undisturbed.communicate(timeout=30)[0].split()) == POINTS
    with Store(tmp_path / f"{number}.db") as resumed, Store(tmp_path / "undisturbed.db") as whole:
        assert resumed.results() == whole.results()
        assert len(whole.results()) == POINTS

    deadline = time.monotonic() + 5
    while descendants() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descendants() == 0
