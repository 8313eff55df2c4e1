"""kill -9 at random moments: the store is readable and keeps its points.

The sweep resumes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study
from tests.support import SUPPORT

HERE = SUPPORT / "sweep"
SERIES, POINTS, WORKERS = 4, 40, 2
MARK = "IOAWARE_TEST_KILL"


def start(study: Path, store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, HERE / "sweeping.py", study, store, str(WORKERS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # unbuffered, so that lines and the rest come from the same stream
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), MARK: str(os.getpid())},
    )


def descendants() -> int:
    """Count living processes that any sweep of this test started."""
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            count += entry.name.isdigit() and f"{MARK}={os.getpid()}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
    return count


def killed_again_and_again(study: Path, folder: Path, seed: int, kills: int) -> int:
    """Kill and restart sweeps, and return how many kills came in the middle of one.

    The first sweep fills `0.db`. When a store is complete, the next sweep fills the next one. The last one is left to complete.
    """
    points = find_study(str(study)).points
    rng = random.Random(seed)
    number, in_time, acknowledged, stored = 0, 0, set[str](), 0
    for kill in range(kills):
        path = folder / f"{number}.db"
        sweep = start(study, path)
        assert sweep.stdout is not None
        # alternate: at a random time, or after some points, whatever the machine's speed
        first = [sweep.stdout.readline() for _ in range(rng.randint(1, POINTS // 4))] if kill % 2 else []
        time.sleep(rng.uniform(0, 0.05) if first else rng.uniform(0.1, 1.0))
        sweep.send_signal(signal.SIGKILL)
        out, _ = sweep.communicate(timeout=10)
        printed = (b"".join(first) + out).decode().split()
        assert not acknowledged & set(printed), "a stored point was run again"
        acknowledged |= set(printed)
        if path.exists():
            with Store(path, readonly=True) as store:
                kept = {point.key for point in points if store.status(point) == "ok"}
            assert acknowledged <= kept
            assert len(kept) >= stored
            in_time += 0 < len(kept) < POINTS
            stored = len(kept)
        if stored == POINTS:
            number, acknowledged, stored = number + 1, set[str](), 0
    finish = start(study, folder / f"{number}.db")
    assert finish.communicate(timeout=30)[1] == b""
    assert finish.returncode == 0
    (folder / f"{number}.db").rename(folder / "last.db")
    return in_time


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    study = tmp_path / "s.toml"
    study.write_text(
        f'[[grid]]\nsources = ["trace"]\ntargets = ["{HERE / "targets.py"}:nap"]\n'
        f"params = {{ seq_len = {list(range(1, POINTS + 1))} }}\n"
    )
    folders = [tmp_path / str(seed) for seed in range(SERIES)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(SERIES) as pool:  # these threads sleep most of the time
        in_time = sum(pool.map(killed_again_and_again, [study] * SERIES, folders, range(SERIES), [kills // SERIES] * SERIES))
    assert in_time >= SERIES, "too few kills during a sweep"

    undisturbed = start(study, tmp_path / "undisturbed.db")
    assert len(undisturbed.communicate(timeout=30)[0].split()) == POINTS
    with Store(tmp_path / "undisturbed.db") as whole:
        assert len(whole.results()) == POINTS
        for folder in folders:
            with Store(folder / "last.db") as resumed:
                assert resumed.results() == whole.results()

    deadline = time.monotonic() + 5
    while descendants() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descendants() == 0
