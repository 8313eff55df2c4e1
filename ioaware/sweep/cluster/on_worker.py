"""Run points in a worker of a Dask cluster, each in a forked process of its own.

Arguments and results are JSON text: between client and workers, only the names of these functions are pickled.
"""

from __future__ import annotations

import contextlib
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
from ioaware.sweep.pool import ENTRY, MACHINE_EXIT, PRELOAD, predict_record

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
    """Return the worker's host, first visible GPU and versions."""
    gpu, index = first_gpu()
    return json.dumps({"host": socket.gethostname(), "gpu": gpu, "gpu_index": index, "versions": versions()})


def run_jobs(text: str) -> str:
    """Run the jobs of one task in order.

    Return their outcomes and the GPU that is visible afterwards.
    """
    task: dict[str, Any] = json.loads(text)
    outcomes = [asdict(_run(task["sweep"], task["entry"], job)) for job in task["jobs"]]
    measured = any(job["job"]["source"] == "measure" for job in task["jobs"])
    return json.dumps({"outcomes": outcomes, "gpu": first_gpu()[0] if measured else None})


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


def _run(sweep: str, entry: str, command: dict[str, Any]) -> Outcome:
    job: dict[str, Any] = command["job"]
    if job["source"] == "predict" and entry == ENTRY:  # as without a cluster: no process of its own
        return Outcome(0, "exit", 0, predict_record(Point("predict", job["target"], job["params"])), "")
    if refusal := _other_file(job["target"], command["revision"]):
        return Outcome(0, "exit", 0, json.dumps({"error": refusal, "exit_code": MACHINE_EXIT}), "")
    isolation = _take(sweep, entry)
    isolation.submit(0, job, command["timeout_s"], command["memory_bytes"])
    outcome = isolation.next()
    _give_back(sweep, isolation)
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
