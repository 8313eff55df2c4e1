"""Run points in a worker of a Dask cluster, each in a forked process of its own.

Arguments and results are JSON text: between client and workers, only the names of these functions are pickled.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import threading
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from ioaware.disk_cache import own_code
from ioaware.environment import installed_version
from ioaware.errors import UsageError
from ioaware.sweep.gpu_name import first_gpu
from ioaware.sweep.isolation import Isolation, Outcome
from ioaware.sweep.points import Point, target_digest
from ioaware.sweep.pool import ENTRY, MACHINE_EXIT, PRELOAD, predict_answer

_PACKAGES = ("torch", "triton", "numpy", "distributed")

_idle: defaultdict[str, list[Isolation]] = defaultdict(list)
_all: defaultdict[str, list[Isolation]] = defaultdict(list)
_stopped: set[str] = set()
_lock = threading.Lock()


def versions() -> dict[str, str]:
    """Return what two processes must share for equal results.

    That is code, Python and packages.

    The code is a hash of ioaware's files, of Python's version and of sympy's.
    """
    found = {name: installed_version(name) or "not installed" for name in _PACKAGES}
    return {"ioaware's code": own_code()[:12], **found}


def identify() -> str:
    """Return the worker's host, first visible GPU and versions.

    Closed forms are imported on the way: every worker would else begin its first predictions with that second.
    """
    importlib.import_module("ioaware.prediction")
    gpu, index = first_gpu()
    return json.dumps({"host": socket.gethostname(), "gpu": gpu, "gpu_index": index, "versions": versions()})


def predict_points(text: str) -> str:
    """Predict the points of one task; return status and record of each.

    They need no process of their own, as without a cluster.
    """
    task: dict[str, Any] = json.loads(text)
    points = (Point("predict", target, params) for target, params in task["points"])
    answers = (predict_answer(point, task["facts"]) for point in points)
    return json.dumps([(answer.status, answer.record) for answer in answers])


def run_job(text: str) -> str:
    """Run one point in a process of its own.

    Return its outcome and, of a measurement, the GPU that is visible afterwards.
    """
    task: dict[str, Any] = json.loads(text)
    outcome = asdict(_run(task))
    return json.dumps({"outcome": outcome, "gpu": first_gpu()[0] if task["job"]["source"] == "measure" else None})


def stop(sweep: str) -> None:
    """End a sweep's fork servers in this worker, and with them its running points."""
    with _lock:
        _stopped.add(sweep)
        isolations = _all.pop(sweep, [])
        idle = _idle.pop(sweep, [])
    for isolation in isolations:
        if isolation in idle:
            isolation.close()
        else:
            isolation.abort()  # the thread that waits for it closes it


def _run(task: dict[str, Any]) -> Outcome:
    job: dict[str, Any] = task["job"]
    if refusal := _other_file(job["target"], task["revision"]):
        return Outcome(0, "exit", 0, json.dumps({"error": refusal, "exit_code": MACHINE_EXIT}), "")
    isolation = _take(task["sweep"], task["entry"])
    isolation.submit(0, job, task["timeout_s"], task["memory_bytes"])
    outcome = isolation.next()
    _give_back(task["sweep"], isolation)
    return outcome


def _other_file(target: str, revision: str) -> str | None:
    """Say what is wrong with the target's file on this host, if anything."""
    if not revision:
        return None
    with contextlib.suppress(UsageError):
        if target_digest(target) == revision:
            return None
    return f"{target}: on {socket.gethostname()}, not the file of this sweep\n  Put it where every host reads the same file."


def _take(sweep: str, entry: str) -> Isolation:
    """Return an idle isolation of the sweep, or a new one.

    There are as many as points run at a time.
    """
    with _lock:
        if sweep in _stopped:
            raise RuntimeError("the sweep has ended")
        if _idle[sweep]:
            return _idle[sweep].pop()
        preload = [name for names in PRELOAD.values() for name in names] if entry == ENTRY else []
        isolation = Isolation(entry, preload=preload, threads=int(os.environ.get("OMP_NUM_THREADS", "1")))
        _all[sweep].append(isolation)
        return isolation


def _give_back(sweep: str, isolation: Isolation) -> None:
    with _lock:
        if sweep not in _stopped:
            _idle[sweep].append(isolation)
            return
    isolation.close()
