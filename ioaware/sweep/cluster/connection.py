"""Open a Dask cluster for a sweep.

It is one of this machine's GPUs or cores, or that of a running scheduler.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from ioaware.errors import MachineError, UsageError
from ioaware.sweep.cluster.dispatcher import Dispatcher
from ioaware.sweep.cluster.roster import Roster
from ioaware.sweep.gpu_name import visible_gpus
from ioaware.sweep.points import Point
from ioaware.sweep.pool import Answer

GPUS = "gpus"
CONNECT_S = 10.0
WORKER_WAIT_S = 60.0
"""Time without a worker after which a sweep ends.

Points that need one stay open.
"""
MOST_POINTS = 4
"""Most points at a time of a worker with a GPU, unless given.

For workers on cores the same number holds.
"""
LOCAL_SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,  # the dispatcher decides what runs again
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.worker.daemon": True,
    "distributed.admin.tick.limit": "1h",  # no warnings about a busy machine
}


class Cluster:
    """A client of a scheduler, and its workers."""

    def __init__(self, client: Any, note: Callable[[str], None], *, patience_s: float = WORKER_WAIT_S) -> None:
        self._client, self._patience_s = client, patience_s
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._roster = Roster(client, self._events.put, note)

    @property
    def dashboard(self) -> str:
        """The address of Dask's dashboard; empty where the scheduler has none."""
        return str(self._client.dashboard_link or "")

    def machines(self) -> tuple[str, ...]:
        """Return the names of the workers' GPUs, each once."""
        return self._roster.machines()

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many workers, and all that are present, have said who they are."""
        deadline = time.monotonic() + self._patience_s
        while True:
            self._roster.refresh()
            found = len(self._roster.workers)
            if self._roster.is_identified and found + len(self._roster.refused) >= count:
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        if not found:
            reasons = "".join(f"\n  {why}" for why in self._roster.refused.values())
            raise MachineError(
                f"the cluster has no worker to run points after {self._patience_s:.0f} s{reasons}",
                "Start workers with `dask worker ADDRESS --nthreads 1`, with the same ioaware installed.",
            )

    def run_points(
        self,
        points: Sequence[Point],
        *,
        timeout_s: float,
        memory_bytes: int | None,
        skip: Callable[[Point], bool],
        entry: str,
    ) -> Generator[Answer]:
        """Yield answers as points end, as `pool.run_points` does."""
        dispatcher = Dispatcher(
            self._client,
            self._roster,
            self._events,
            points,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            skip=skip,
            entry=entry,
            patience_s=self._patience_s,
        )
        return dispatcher.run()


@contextmanager
def open_cluster(
    where: str,
    *,
    workers: int | None = None,
    note: Callable[[str], None] = lambda _: None,
    patience_s: float = WORKER_WAIT_S,
) -> Generator[Cluster]:
    """Open the cluster of `gpus`, or of a scheduler's address.

    Its workers are identified.

    `workers` limits the workers of `gpus`. `note` gets remarks about workers. Raises `UsageError` for an address that is none
    or without `distributed`, `MachineError` for a scheduler that does not answer or has no worker that can run points.
    """
    distributed = _import_distributed()
    if where == GPUS:
        with _local_cluster(distributed, workers) as (local, count), distributed.Client(local) as client:
            cluster = Cluster(client, note, patience_s=patience_s)
            cluster.wait_for_workers(count)
            yield cluster
    else:
        if workers is not None:
            raise UsageError("--workers counts the workers of --cluster gpus", "A running cluster has its own.")
        client = _connect(distributed, where)
        try:
            cluster = Cluster(client, note, patience_s=patience_s)
            cluster.wait_for_workers(1)
            yield cluster
        finally:
            client.close()


def _import_distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise UsageError("--cluster needs distributed", "Install it: pip install 'ioaware[cluster]'.") from None


def _connect(distributed: Any, address: str) -> Any:
    """Return a client of the scheduler; its answer is waited for at most `CONNECT_S`."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it logs is raised here as an error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions: the workers' are compared one by one
            return distributed.Client(address, timeout=CONNECT_S)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"--cluster {address}: not an address ({error})", "For example: --cluster tcp://10.0.0.5:8786, or --cluster gpus."
        ) from error
    except OSError as error:
        raise MachineError(
            f"--cluster {address}: no scheduler answers within {CONNECT_S:.0f} s",
            "Start one with `dask scheduler`, which prints its address; firewalls must let its port through.",
        ) from error


@contextmanager
def _local_cluster(distributed: Any, workers: int | None) -> Generator[tuple[Any, int]]:
    """Start a scheduler and one worker process for each GPU.

    Without a GPU there is one for each core.

    All of them listen on the loopback interface only, and end with this process.
    """
    cores = len(os.sched_getaffinity(0))
    gpus = visible_gpus()
    count = min(workers or len(gpus), len(gpus)) or workers or min(MOST_POINTS, cores)
    slots = max(1, min(MOST_POINTS, cores // count)) if gpus else 1
    threads = str(max(1, cores // (count * slots)))
    with (
        tempfile.TemporaryDirectory(prefix="ioaware-dask-") as folder,
        _settings(LOCAL_SETTINGS),
        _event_loop() as loop,
    ):
        common: dict[str, Any] = {
            "nthreads": slots,
            "memory_limit": 0,
            "local_directory": folder,
            "host": "127.0.0.1",
            "dashboard": False,
            "silence_logs": logging.CRITICAL,
        }
        environments = [
            {"OMP_NUM_THREADS": threads, **({"CUDA_VISIBLE_DEVICES": gpus[n]} if gpus else {})} for n in range(count)
        ]
        local = distributed.SpecCluster(
            scheduler={
                "cls": distributed.Scheduler,
                "options": {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0", "dashboard": True},
            },
            workers={n: {"cls": distributed.Nanny, "options": {**common, "env": environments[n]}} for n in range(count)},
            silence_logs=logging.CRITICAL,
            loop=loop,
        )
        try:
            yield local, count
        finally:
            local.close()


@contextmanager
def _event_loop() -> Generator[Any]:
    """Run the event loop that starts the workers, in a thread without SIGINT.

    Its child processes inherit that. Why: Ctrl-C reaches all processes of a terminal, and only the sweep is to act on it.
    """
    utils: Any = importlib.import_module("distributed.utils")
    runner: Any = utils.LoopRunner()
    resource_tracker.ensure_running()  # starting it later would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextmanager
def _settings(values: dict[str, Any]) -> Generator[None]:
    dask: Any = importlib.import_module("dask")
    with dask.config.set(values):
        yield
