"""Hand points to the workers of a Dask cluster and yield their answers.

The client chooses each point's worker, so a worker that dies is known to have had exactly its points. The store stays with the
caller: nothing here writes a file.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from ioaware import strict_json
from ioaware.errors import MachineError
from ioaware.sweep.cluster import on_worker
from ioaware.sweep.cluster.roster import Roster, Task, Worker
from ioaware.sweep.gpu_name import NO_GPU
from ioaware.sweep.isolation import Outcome
from ioaware.sweep.points import Point
from ioaware.sweep.pool import ENTRY, Answer, failed_record, make_answer, make_job

POLL_S = 1.0
LONGEST_CHUNK = 512
"""Most predictions of one task.

Each takes half a millisecond, and a task up to 20 ms of the client's time.
"""
HANG_MARGIN_S = 120.0
"""Time beyond a point's limit after which its worker counts as hanging.

A fork server must start and import torch in it.
"""
RESULT_S, STOP_S = 10.0, 10.0
DIED = "died or lost its connection"
MAX_LOSSES = 2
"""A point whose worker was lost runs once more."""


class Dispatcher:
    """The points of one call, by what they need of a machine."""

    def __init__(
        self,
        client: Any,
        roster: Roster,
        events: queue.SimpleQueue[Any],
        points: Sequence[Point],
        *,
        timeout_s: float,
        memory_bytes: int | None,
        skip: Callable[[Point], bool],
        entry: str,
        patience_s: float,
    ) -> None:
        self.client, self.roster, self.events = client, roster, events
        self.timeout_s, self.memory_bytes, self.skip, self.entry = timeout_s, memory_bytes, skip, entry
        self.patience_s = patience_s
        self.sweep = uuid.uuid4().hex
        self.queues: dict[str, deque[Point]] = {}
        self.claimed: set[Point] = set()
        self.losses: Counter[Point] = Counter()
        self.without_worker: dict[str, float] = {}
        self.tasks: dict[str, Task] = {}
        self.next_poll = 0.0
        for point in points:
            self.queues.setdefault(point.need, deque()).append(point)

    def run(self) -> Generator[Answer]:
        """Yield answers as points end.

        Raise `MachineError` when the scheduler or every worker is gone.
        """
        try:
            while self.tasks or any(self.queues.values()):
                yield from self._poll()
                yield from self._give_up_needs()
                self._send()
                if self.tasks or any(self.queues.values()):
                    yield from self._wait()
        finally:
            self._stop()

    def _poll(self) -> Iterable[Answer]:
        """Look for workers that died, hang or are new, once a second."""
        now = time.monotonic()
        if now < self.next_poll:
            return
        self.next_poll = now + POLL_S
        for worker in self._refresh():
            yield from self._lose(worker, DIED)
        if not self.roster.workers and now - self.roster.last_seen > self.patience_s:
            reasons = "; ".join(self.roster.refused.values())
            raise MachineError(
                f"no worker for {self.patience_s:.0f} s{': ' + reasons if reasons else ''}",
                "Stored points are kept: start workers, then run the same command.",
            )
        for worker in list(self.roster.workers.values()):
            for task in worker.tasks[: worker.slots]:
                task.running_since = task.running_since or now
                if now - task.running_since > task.limit_s + HANG_MARGIN_S and not task.future.done():
                    self.roster.dismiss(worker, "hangs: gets no more points")
                    yield from self._lose(worker, "hung")
                    break

    def _refresh(self) -> list[Worker]:
        """Ask the scheduler for its workers; without an answer, wait for it to come back."""
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                if self.client.status == "running":
                    return self.roster.refresh()
            except (OSError, ValueError):  # the connection broke, or was not there
                pass
            if self.client.status == "closed" or time.monotonic() > deadline:
                raise MachineError(
                    "the scheduler does not answer any more",
                    "Stored points are kept: start it and its workers, then run the same command.",
                )
            time.sleep(POLL_S / 4)

    def _give_up_needs(self) -> Generator[Answer]:
        """Leave points open for which there has been no worker for a while, and say why."""
        for need, points in self.queues.items():
            if not points or not self.roster.workers or any(self._can_run(worker, points[0]) for worker in self._workers()):
                self.without_worker.pop(need, None)
                continue
            since = self.without_worker.setdefault(need, time.monotonic())
            lacks = [worker.lacks[points[0].source] for worker in self._workers() if points[0].source in worker.lacks]
            all_lack = self.roster.is_identified and len(lacks) == len(self.roster.workers)
            if all_lack or time.monotonic() - since > self.patience_s:
                why = lacks[0] if lacks else f"the workers' GPUs: {', '.join(self.roster.machines())}"
                while points:
                    yield Answer(points.popleft(), "", "failed", lacking=why)

    def _send(self) -> None:
        """Fill every worker that has room, the least busy first."""
        for worker in sorted(self._workers(), key=lambda worker: len(worker.tasks) / worker.slots):
            for points in sorted(self.queues.values(), key=_not_measured):
                while points and self._can_run(worker, points[0]) and worker.has_room(points[0]):
                    if chunk := self._take(points):
                        self._submit(worker, chunk)

    def _take(self, points: deque[Point]) -> list[Point]:
        """Return the next point to run, or a chunk of predictions."""
        slots = sum(worker.slots for worker in self._workers())
        together = self._is_prediction(points[0]) and not self.losses[points[0]]
        size = min(LONGEST_CHUNK, max(1, len(points) // (4 * slots))) if together else 1
        chunk: list[Point] = []
        while points and len(chunk) < size:
            point = points.popleft()
            if point in self.claimed or not self.skip(point):
                self.claimed.add(point)
                chunk.append(point)
        return chunk

    def _is_prediction(self, point: Point) -> bool:
        """Return whether its worker computes it itself.

        As without a cluster, it needs no process of its own.
        """
        return point.source == "predict" and self.entry == ENTRY

    def _submit(self, worker: Worker, points: list[Point]) -> None:
        if self._is_prediction(points[0]):
            function, limit_s = on_worker.predict_points, self.timeout_s * len(points)
            work: dict[str, Any] = {"facts": worker.facts, "points": [[point.target, point.params] for point in points]}
        else:
            (point,) = points
            job, limit_s, memory_bytes = make_job(point, self.timeout_s, 1, self.memory_bytes)
            function = on_worker.run_job
            limits = {"timeout_s": limit_s, "memory_bytes": memory_bytes}
            work = {"sweep": self.sweep, "entry": self.entry, "job": job, "revision": point.revision, **limits}
        task = Task(points, limit_s, worker)
        name = f"{points[0].source}-{uuid.uuid4().hex}"
        text = json.dumps(work)
        task.future = self.client.submit(function, text, key=name, workers=[worker.address], pure=False)
        self.tasks[name] = task
        worker.tasks.append(task)
        task.future.add_done_callback(self.events.put)

    def _wait(self) -> Generator[Answer]:
        """Take the next end of a task, within the time to the next poll."""
        try:
            future = self.events.get(timeout=max(0.01, self.next_poll - time.monotonic()))
        except queue.Empty:
            return
        task = self.tasks.get(future.key)
        if task is None or task.future is not future:  # a worker that said who it is, or a task given up
            self.next_poll = 0.0
            return
        if future.status in ("cancelled", "lost"):  # with the scheduler
            self.next_poll = 0.0
            self._give_back(task)
            return
        try:
            said = json.loads(future.result(timeout=RESULT_S))
        except Exception as error:  # Dask raises whatever the worker raised
            if type(error).__name__ == "KilledWorker":
                self.roster.dismiss(task.worker, DIED)
                yield from self._lose(task.worker, DIED)
            else:
                yield from self._lost([task], f"gave no result ({type(error).__name__}: {str(error)[:300]})")
            return
        self._forget(task)
        if self._is_prediction(task.points[0]):
            last = task.points[-1]
            for point, (status, record) in zip(task.points, said, strict=True):
                yield Answer(point, record, status, more=point is not last)
        else:
            yield from self._answer(task.points[0], task.worker, said)

    def _answer(self, point: Point, worker: Worker, said: dict[str, Any]) -> Generator[Answer]:
        """Yield the answer of a point whose process ended.

        One that this worker cannot run goes back to the queue.
        """
        outcome = Outcome(**said["outcome"])
        answer = make_answer(point, outcome)
        failed = answer.status == "failed"
        if failed and said["gpu"] not in (None, worker.gpu):
            worker.lacks["measure"] = f"{worker.gpu} on {worker.host} is gone"
            yield from self._retry(point, worker, "lost its GPU")
        elif outcome.ended == "lost" and not self.losses[point]:  # with the fork server, as without a cluster
            yield from self._retry(point, worker, outcome.problem)
        elif answer.lacking is not None and point.source not in worker.proven:
            worker.lacks[point.source] = answer.lacking
            self.queues[point.need].appendleft(point)
        else:
            if not failed:
                worker.proven.add(point.source)
            yield _located(answer, worker)

    def _lose(self, worker: Worker, how: str) -> Generator[Answer]:
        """Run the points of a lost worker elsewhere.

        Those that it was running count a loss.
        """
        tasks = [task for task in worker.tasks if task.future.status != "finished"]
        running, waiting = tasks[: worker.slots], tasks[worker.slots :]
        for task in reversed(waiting):
            self._give_back(task)
        yield from self._lost(running, how)

    def _give_back(self, task: Task) -> None:
        """Put points that have not run back to the head of their queue."""
        self._forget(task)
        self.queues[task.points[0].need].extendleft(reversed(task.points))

    def _lost(self, tasks: list[Task], how: str) -> Generator[Answer]:
        for task in tasks:
            self._forget(task)
            for point in task.points:
                yield from self._retry(point, task.worker, how)

    def _retry(self, point: Point, worker: Worker, how: str) -> Generator[Answer]:
        self.losses[point] += 1
        if self.losses[point] < MAX_LOSSES:
            self.queues[point.need].appendleft(point)
        else:
            problem = f"lost with its worker {MAX_LOSSES} times; the last one, on {worker.host}, {how}"
            yield _located(Answer(point, failed_record(point, problem), "failed"), worker)

    def _forget(self, task: Task) -> None:
        del self.tasks[task.future.key]
        task.worker.tasks.remove(task)
        task.future.release()

    def _can_run(self, worker: Worker, point: Point) -> bool:
        return worker.can_run(point, self.roster.seen_gpu)

    def _workers(self) -> list[Worker]:
        return list(self.roster.workers.values())

    def _stop(self) -> None:
        """End what still runs.

        Without this, a worker would finish points without a receiver.
        """
        futures = [task.future for task in self.tasks.values()]
        addresses = [worker.address for worker in self._workers()]

        def end() -> None:
            with contextlib.suppress(Exception):  # a scheduler that is gone has ended them
                self.client.cancel(futures)
                self.client.run(on_worker.stop, self.sweep, workers=addresses, on_error="ignore")

        if self.client.status == "running" and addresses:
            thread = threading.Thread(target=end, daemon=True)
            thread.start()
            thread.join(STOP_S)  # a worker that hangs does not answer


def _not_measured(points: deque[Point]) -> bool:
    """Order queues so that GPUs, the scarcer resource, get their points first."""
    return not points or points[0].source != "measure"


def _located(answer: Answer, worker: Worker) -> Answer:
    """Return an answer whose record says where it was made."""
    fields: dict[str, Any] = json.loads(answer.record)
    fields["environment"] = {**fields.get("environment", {}), **worker.facts}
    machine = worker.gpu if worker.gpu != NO_GPU else ""
    return Answer(answer.point, strict_json.dumps(fields), answer.status, machine=machine)
