"""Follow the workers of a Dask cluster.

Each has a host, perhaps a GPU, and the points that it runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ioaware.sweep.cluster import on_worker
from ioaware.sweep.gpu_name import NO_GPU
from ioaware.sweep.points import Point


@dataclass(eq=False)
class Task:
    """Points that one worker runs in order, as one task of Dask."""

    points: list[Point]
    limit_s: float
    worker: Worker
    future: Any = None
    running_since: float | None = None


@dataclass(eq=False)
class Worker:
    """A worker and what it runs.

    The first `slots` tasks are running, the others wait there.
    """

    address: str
    slots: int
    host: str
    gpu: str
    gpu_index: int | None
    tasks: list[Task] = field(default_factory=list[Task])
    proven: set[str] = field(default_factory=set[str])
    """Sources of which this worker has returned a result."""
    lacks: dict[str, str] = field(default_factory=dict[str, str])
    """Sources that it cannot run, and why."""

    def can_run(self, point: Point, gpu_needed: bool) -> bool:
        """Return whether it has what the point needs."""
        if point.source in self.lacks:
            return False
        if point.source != "measure":
            return True
        return self.gpu == point.machine if point.machine else not (gpu_needed and self.gpu == NO_GPU)

    def has_room(self, point: Point) -> bool:
        """Return whether to send it a point now.

        It gets one measurement at a time, and other points one ahead.
        """
        if point.source == "measure":
            return len(self.tasks) < self.slots and not any(task.points[0].source == "measure" for task in self.tasks)
        return len(self.tasks) <= self.slots

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of where it was made."""
        return {"host": self.host} | ({} if self.gpu_index is None else {"gpu_index": self.gpu_index})


class Roster:
    """The workers that have the client's versions, by Dask's id of the worker process.

    A process that was replaced under the same address is another worker.
    """

    def __init__(self, client: Any, wake: Callable[[Any], None], note: Callable[[str], None]) -> None:
        self.workers: dict[str, Worker] = {}
        self.refused: dict[str, str] = {}
        """Why a worker gets no points."""
        self.seen_gpu = False
        self.last_seen = time.monotonic()
        self._client, self._wake, self._note = client, wake, note
        self._asked: dict[str, tuple[Any, str, int]] = {}
        self._versions = on_worker.versions()

    def refresh(self) -> list[Worker]:
        """Ask the scheduler for its workers, and new workers who they are.

        Return those that are gone.
        """
        present = self._present()
        for name, entry in present.items():
            if name not in self.workers and name not in self._asked and name not in self.refused:
                future = self._client.submit(on_worker.identify, workers=[entry["id_address"]], pure=False, priority=10)
                future.add_done_callback(self._wake)
                self._asked[name] = (future, entry["id_address"], int(entry["nthreads"]))
        for name in [name for name in self._asked if name not in present]:
            self._asked.pop(name)[0].cancel()
        for name in [name for name, (future, _, _) in self._asked.items() if future.done()]:
            self._admit(name, *self._asked.pop(name))
        self.refused = {name: why for name, why in self.refused.items() if name in present}
        gone = [self.workers.pop(name) for name in list(self.workers) if name not in present]
        if self.workers:
            self.last_seen = time.monotonic()
        return gone

    def dismiss(self, worker: Worker, why: str) -> None:
        """Give a worker no more points."""
        name = next(name for name, known in self.workers.items() if known is worker)
        del self.workers[name]
        self.refused[name] = why
        self._note(f"{worker.address} on {worker.host}: {why}")

    @property
    def is_identified(self) -> bool:
        """Whether every worker present has said who it is."""
        return not self._asked

    def machines(self) -> tuple[str, ...]:
        """Return the names of the workers' GPUs, each once."""
        return tuple(sorted({worker.gpu for worker in self.workers.values() if worker.gpu != NO_GPU})) or (NO_GPU,)

    def _present(self) -> dict[str, dict[str, Any]]:
        """Return what the scheduler says of each worker, by the id of its process."""
        info: dict[str, Any] = self._client.scheduler_info(n_workers=-1)
        return {str(entry["id"]): {**entry, "id_address": address} for address, entry in info["workers"].items()}

    def _admit(self, name: str, future: Any, address: str, slots: int) -> None:
        if future.status != "finished":
            self._refuse(name, address, f"it cannot run ioaware ({_why(future)}); install the same version there")
            return
        said: dict[str, Any] = json.loads(future.result())
        theirs = said.pop("versions")
        differing = [
            f"{what} {theirs[what]} there, {ours} here" for what, ours in self._versions.items() if theirs[what] != ours
        ]
        if differing:
            self._refuse(name, f"{address} on {said['host']}", "other versions: " + "; ".join(differing))
            return
        self.workers[name] = Worker(address, max(1, slots), **said)
        self.seen_gpu |= said["gpu"] != NO_GPU

    def _refuse(self, name: str, where: str, why: str) -> None:
        self.refused[name] = f"{where}: {why}"
        self._note(f"gets no points: {where}: {why}")


def _why(future: Any) -> str:
    try:
        return str(future.exception(timeout=5))[:300]
    except Exception as error:
        return type(error).__name__
