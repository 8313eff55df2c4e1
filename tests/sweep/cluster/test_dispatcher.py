"""Which worker runs a point, and what a lost worker costs.

The client is scripted, without Dask and processes.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import MachineError
from ioaware.result import Result
from ioaware.result_file import decode, encode
from ioaware.sweep.cluster import dispatcher, on_worker
from ioaware.sweep.cluster.dispatcher import Dispatcher
from ioaware.sweep.cluster.roster import Roster
from ioaware.sweep.gpu_name import NO_GPU
from ioaware.sweep.isolation import Outcome
from ioaware.sweep.points import Point, make_point
from ioaware.sweep.pool import ENTRY, Answer, predict_answer

H200, A100 = "NVIDIA H200", "NVIDIA A100-SXM4-80GB"
VERSIONS = {"ioaware's code": "abc", "torch": "2.13.0"}


class KilledWorker(Exception):  # noqa: N818
    """Dask's error of that name."""


class Future:
    def __init__(self, key: str, status: str, value: Any) -> None:
        self.key, self.status, self.value = key, status, value

    def result(self, timeout: float | None = None) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def exception(self, timeout: float | None = None) -> Any:
        return self.value

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        if self.status != "pending":
            function(self)

    def done(self) -> bool:
        return self.status != "pending"

    def cancel(self) -> None: ...

    def release(self) -> None: ...


class Client:
    """Workers by address: their GPU, and what they make of a point.

    `behave` returns an outcome and the GPU that is left, or raises what Dask would raise; None is a worker that hangs.
    """

    status = "running"

    def __init__(self, gpus: dict[str, str], behave: Callable[[str, dict[str, Any]], tuple[Outcome, str] | None]) -> None:
        self.gpus, self.behave = gpus, behave
        self.versions: dict[str, dict[str, str]] = {}
        self.ran: list[tuple[str, str]] = []

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {address: {"id": f"id-{address}", "nthreads": 1} for address in self.gpus}}

    def submit(self, function: Any, *arguments: str, workers: Sequence[str], key: str = "identify", **options: Any) -> Future:
        (address,) = workers
        if function is on_worker.identify:
            known = {
                "host": f"host-{address}",
                "gpu": self.gpus[address],
                "gpu_index": 0 if self.gpus[address] != NO_GPU else None,
            }
            return Future(key, "finished", json.dumps({**known, "versions": self.versions.get(address, VERSIONS)}))
        task = json.loads(arguments[0])
        predicted = [{"source": "predict", "target": target, "params": params} for target, params in task.get("points", [])]
        said = None
        for job in predicted or [task["job"]]:
            self.ran.append((address, job["target"]))
            try:
                said = self.behave(address, job)
            except Exception as error:
                if isinstance(error, KilledWorker):
                    del self.gpus[address]
                return Future(key, "error", error)
        if said is None:
            return Future(key, "pending", None)
        if predicted:
            return Future(key, "finished", on_worker.predict_points(*arguments))
        return Future(key, "finished", json.dumps({"outcome": asdict(said[0]), "gpu": said[1]}))

    def cancel(self, futures: Sequence[Future]) -> None: ...

    def run(self, function: Any, *arguments: Any, **options: Any) -> None:
        assert function is on_worker.stop


def fine(address: str, job: dict[str, Any]) -> tuple[Outcome, str]:
    return Outcome(0, "exit", 0, encode(Result(job["source"], job["target"], job["params"])), ""), H200


def error(what: str) -> Outcome:
    return Outcome(0, "exit", 0, json.dumps({"error": what, "exit_code": 5}), "")


def points(count: int, source: Any = "trace", machine: str = "") -> list[Point]:
    return [replace(Point(source, f"m:t{number}", {}), machine=machine) for number in range(count)]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "POLL_S", 0.01)
    monkeypatch.setattr(dispatcher, "HANG_MARGIN_S", -1000.0)  # a pending task counts as hanging at once
    monkeypatch.setattr(on_worker, "versions", lambda: VERSIONS)


def run(
    client: Client,
    todo: list[Point],
    *,
    patience_s: float = 0.1,
    notes: list[str] | None = None,
    entry: str = "targets:stub",
) -> list[Answer]:
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    roster = Roster(client, events.put, (notes if notes is not None else []).append)
    roster.refresh()
    options = SimpleNamespace(timeout_s=1.0, memory_bytes=None, entry=entry, patience_s=patience_s)
    return list(Dispatcher(client, roster, events, todo, skip=lambda _: False, **vars(options)).run())


def test_every_point_has_one_answer_with_its_host_and_gpu() -> None:
    client = Client({"a": H200, "b": NO_GPU}, fine)
    answers = run(client, points(5))
    assert sorted(answer.point.target for answer in answers) == [f"m:t{number}" for number in range(5)]
    for answer in answers:
        host = client.ran[[target for _, target in client.ran].index(answer.point.target)][0]
        facts = {"host": f"host-{host}"} | ({"gpu_index": 0} if host == "a" else {})
        assert decode(answer.record).environment == facts
    assert {address for address, _ in client.ran} == {"a", "b"}


def test_the_last_answer_of_a_task_ends_its_transaction() -> None:
    answers = run(Client({"a": NO_GPU}, fine), points(9, "predict"), entry=ENTRY)
    assert len(answers) == 9
    assert [answer.more for answer in answers] == [True, False, *[False] * 7]  # a quarter of the points, then one at a time


def test_predictions_of_a_worker_are_those_of_this_process_and_name_its_host() -> None:
    todo = [make_point("predict", "flash2", {"seq_len": length}) for length in range(16, 36)]
    todo.append(Point("predict", "flash2", {"seq_len": 16, "head_dim": 0}))  # a study would refuse it
    answers = run(Client({"a": NO_GPU, "b": NO_GPU}, fine), todo, entry=ENTRY)
    assert {answer.point for answer in answers} == set(todo)
    for answer in answers:
        here, there = predict_answer(answer.point), json.loads(answer.record)
        assert there.pop("environment")["host"] in ("host-a", "host-b")
        assert there == json.loads(here.record)
        assert answer.status == here.status == there["status"] == ("failed" if answer.point is todo[-1] else "ok")


def test_the_predictions_of_a_dead_worker_run_again_one_by_one() -> None:
    deaths = iter(["a"])

    def behave(address: str, job: dict[str, Any]) -> tuple[Outcome, str]:
        if job["params"] == {"seq_len": 17} and next(deaths, None):
            raise KilledWorker
        return fine(address, job)

    client = Client({"a": NO_GPU, "b": NO_GPU}, behave)
    answers = run(client, [Point("predict", "flash2", {"seq_len": length}) for length in range(16, 56)], entry=ENTRY)
    assert len(answers) == 40
    assert {answer.status for answer in answers} == {"ok"}


def test_a_dead_worker_costs_its_point_one_retry() -> None:
    deaths = iter(["a"])

    def behave(address: str, job: dict[str, Any]) -> tuple[Outcome, str]:
        if job["target"] == "m:t1" and next(deaths, None):
            raise KilledWorker
        return fine(address, job)

    client = Client({"a": NO_GPU, "b": NO_GPU}, behave)
    answers = run(client, points(4))
    assert {decode(answer.record).status for answer in answers} == {"ok"}
    assert sorted(target for _, target in client.ran).count("m:t1") == 2
    assert len(answers) == 4


def test_a_point_that_kills_its_workers_fails_and_the_others_do_not() -> None:
    def behave(address: str, job: dict[str, Any]) -> tuple[Outcome, str]:
        if job["target"] == "m:t1":
            raise KilledWorker
        return fine(address, job)

    answers = run(Client(dict.fromkeys("abc", NO_GPU), behave), points(4))
    statuses = {answer.point.target: decode(answer.record).status for answer in answers}
    assert statuses == {"m:t0": "ok", "m:t1": "failed", "m:t2": "ok", "m:t3": "ok"}
    (failed,) = (decode(answer.record) for answer in answers if answer.point.target == "m:t1")
    assert "lost with its worker 2 times" in failed.notes[0]
    assert failed.environment is not None
    assert failed.environment["host"].startswith("host-")


def test_points_of_a_hanging_worker_run_elsewhere() -> None:
    notes: list[str] = []
    client = Client({"a": NO_GPU, "b": NO_GPU}, lambda address, job: None if address == "a" else fine(address, job))
    answers = run(client, points(4), notes=notes)
    assert [decode(answer.record).status for answer in answers] == ["ok"] * 4
    assert notes == ["a on host-a: hangs: gets no more points"]


def test_a_worker_that_loses_its_gpu_measures_no_more() -> None:
    def behave(address: str, job: dict[str, Any]) -> tuple[Outcome, str]:
        return (error("no GPU"), NO_GPU) if address == "a" else fine(address, job)

    client = Client({"a": H200, "b": H200}, behave)
    answers = run(client, points(6, "measure"))
    assert [answer.lacking for answer in answers] == [None] * 6
    assert {answer.machine for answer in answers} == {H200}
    assert [address for address, _ in client.ran].count("a") == 1


def test_points_stay_open_when_the_last_gpu_is_gone() -> None:
    lost = iter([False, True])

    def behave(address: str, job: dict[str, Any]) -> tuple[Outcome, str]:
        return (error("no GPU"), NO_GPU) if job["source"] == "measure" and next(lost, True) else fine(address, job)

    answers = run(Client({"a": H200}, behave), [*points(3, "measure"), *points(2)])
    assert [answer.lacking for answer in answers if answer.point.source == "trace"] == [None, None]
    measured = {answer.point.target: answer.lacking for answer in answers if answer.point.source == "measure"}
    assert measured == {"m:t0": None, **dict.fromkeys(("m:t1", "m:t2"), f"{H200} on host-a is gone")}


def test_a_host_without_counters_leaves_measuring_to_the_others() -> None:
    def behave(address: str, job: dict[str, Any]) -> tuple[Outcome, str]:
        return (error("no counters"), H200) if address == "a" else fine(address, job)

    assert {answer.lacking for answer in run(Client({"a": H200, "b": H200}, behave), points(5, "measure"))} == {None}
    alone = run(Client({"a": H200}, behave), points(5, "measure"))
    assert [answer.lacking for answer in alone] == ["no counters"] * 5


def test_a_point_that_names_a_machine_runs_there() -> None:
    client = Client({"a": H200, "b": A100}, fine)
    answers = run(client, [*points(3, "measure", A100), *points(3, "measure", H200)])
    assert {(answer.point.machine, answer.machine) for answer in answers} == {(A100, A100), (H200, H200)}
    answers = run(Client({"a": H200}, fine), points(2, "measure", A100))
    assert [answer.lacking for answer in answers] == [f"the workers' GPUs: {H200}"] * 2


def test_a_worker_of_other_versions_gets_no_points() -> None:
    notes: list[str] = []
    client = Client({"a": NO_GPU, "b": NO_GPU}, fine)
    client.versions["a"] = {**VERSIONS, "torch": "2.11.0"}
    assert len(run(client, points(4), notes=notes)) == 4
    assert {address for address, _ in client.ran} == {"b"}
    assert notes == ["gets no points: a on host-a: other versions: torch 2.11.0 there, 2.13.0 here"]


def test_without_workers_the_sweep_ends() -> None:
    with pytest.raises(MachineError, match=r"no worker for 0 s.*\n  Stored points are kept"):
        run(Client({}, fine), points(2), patience_s=0.0)


def test_a_scheduler_that_is_gone_ends_the_sweep() -> None:
    client = Client({"a": NO_GPU}, lambda address, job: setattr(client, "status", "closed"))
    with pytest.raises(MachineError, match=r"scheduler does not answer any more\n  Stored points are kept"):
        run(client, points(2))
