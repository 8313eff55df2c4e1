"""Precompilation in worker processes: a crash or hang costs one point.

Groups share kernels.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from ioaware.bench.attention_points import grid
from ioaware.bench.backend import BackEnd
from ioaware.bench.precompile import compile_groups, precompile

POINTS = grid(["forward"], [64, 128], [512, 1024])
HELPER = """
import json, os, signal, sys, time
for line in sys.stdin:
    job = json.loads(line)
    for point in job["points"]:
        if job["name"] == "mortal" and point["seq_len"] == 512: os.kill(os.getpid(), signal.SIGSEGV)
        if job["name"] == "quitter" and point["head_dim"] == 64: sys.exit(3)
        if job["name"] == "hanging" and point["seq_len"] == 512: time.sleep(60)
        status = "failed" if job["name"] == "refuser" else "ok"
        print(json.dumps({"status": status, "reason": "not here" * (status != "ok")}), flush=True)
"""


def ends(*names: str) -> list[BackEnd]:
    return [BackEnd(name, lambda point: None, compiles=True) for name in names]  # type: ignore[arg-type,return-value]


def run_precompile(*names: str, timeout_s: float = 30.0):
    seen = []
    command = (sys.executable, "-SE", "-c", HELPER)
    found = precompile(
        POINTS,
        ends(*names),
        None,
        processes=2,
        command=command,
        timeout_s=timeout_s,
        progress=lambda *what: seen.append((*what, threading.get_ident())),
    )
    assert sorted(done for done, *_ in seen) == list(range(1, len(names) * len(POINTS) + 1))
    assert {thread for *_, thread in seen} == {threading.get_ident()}  # a progress bar may only be updated by its own thread
    return found


def test_a_group_shares_its_kernels() -> None:
    field = [
        *ends("flex"),
        BackEnd("cudnn", ends("x")[0].prepare),
        BackEnd("gone", ends("x")[0].prepare, compiles=True, needs="no_such_module"),
    ]
    found = compile_groups(POINTS, field)
    assert [name for name, _ in found] == ["flex"] * 4
    assert all(len({(p.head_dim, p.causal) for p in group}) == 1 and len(group) == 2 for _, group in found)


def test_successes_exclude_nothing() -> None:
    assert run_precompile("good") == {}


def test_failures_are_returned_with_their_reason() -> None:
    assert run_precompile("refuser") == {(point, "refuser"): ("failed", "not here") for point in POINTS}


def test_a_crash_excludes_one_point_and_the_others_go_on() -> None:
    found = run_precompile("mortal", "good")
    assert {(point.seq_len, name) for point, name in found} == {(512, "mortal")}
    assert all("died by signal 11" in reason for _, reason in found.values())


def test_an_exit_excludes_its_point_too() -> None:
    found = run_precompile("quitter")
    assert {point.head_dim for point, _ in found} == {64}
    assert all("ended with code 3" in reason for _, reason in found.values())


def test_a_process_that_hangs_is_killed() -> None:
    found = run_precompile("hanging", timeout_s=0.5)
    assert {point.seq_len for point, _ in found} == {512}


def test_a_command_that_cannot_start_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        precompile(POINTS, ends("good"), None, processes=1, command=(str(tmp_path / "nothing"),))
