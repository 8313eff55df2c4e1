"""Start one process for each GPU, and merge what they answer into records."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from typing import IO, Any

from ioaware.bench.multi_gpu.link_record import Ends, ExchangeEntry, ExchangeRecord, Subject
from ioaware.errors import MachineError
from ioaware.measurement.nvlink import LinkBytes

LIMIT_S = 300.0
"""Longest time of one point."""
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
ONE_HOST = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
STDERR_CHARS = 2000
Answer = dict[str, Any]


class Ranks:
    """Processes of all ranks, whose answers come in lockstep.

    It is a context; leaving it ends them.
    """

    def __init__(self, order: Mapping[str, Any], ranks: int, *, worker: Sequence[str] = (), limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._open = ExitStack()
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self._errors: list[IO[str]] = []
        self._arriving: queue.SimpleQueue[tuple[int, Answer | None]] = queue.SimpleQueue()
        self._ended: set[int] = set()
        self._answers: list[deque[Answer]] = [deque() for _ in range(ranks)]
        command = [*worker] or [sys.executable, "-m", "ioaware.bench.multi_gpu.rank_worker"]
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="ioaware-ranks-"))
        environment = ONE_HOST | dict(os.environ) | NO_MULTICAST
        for rank in range(ranks):
            text = json.dumps({**order, "rank": rank, "ranks": ranks, "folder": folder, "limit_s": limit_s})
            self._start(rank, command, environment, text)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process, reader in zip(self._processes, self._readers, strict=True):
            process.wait()
            reader.join()
        self._open.close()

    def _start(self, rank: int, command: Sequence[str], environment: Mapping[str, str], order: str) -> None:
        errors = self._open.enter_context(tempfile.TemporaryFile("w+", errors="replace"))  # noqa: SIM115
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        )
        self._processes.append(process)
        self._errors.append(errors)
        reader = threading.Thread(target=self._read, args=(rank, process.stdout), daemon=True)
        self._readers.append(reader)
        reader.start()
        with suppress(BrokenPipeError), process.stdin or nullcontext() as orders:
            if orders:
                orders.write(order)

    def _read(self, rank: int, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._arriving.put((rank, json.loads(line)))
        self._arriving.put((rank, None))

    def next(self) -> list[Answer]:
        """Return the next answer of every rank.

        Raises `MachineError` for a rank that ends, fails or does not answer within the limit of a point.
        """
        deadline = time.monotonic() + self.limit_s
        while missing := [rank for rank, answers in enumerate(self._answers) if not answers]:
            if gone := self._ended.intersection(missing):
                raise MachineError(f"the process of rank {min(gone)} ended early", self._said(min(gone)))
            try:
                rank, answer = self._arriving.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                what = f"rank {missing[0]} did not answer for {self.limit_s:.0f} s"
                raise MachineError(what, self._said(missing[0])) from None
            if answer is None:
                self._ended.add(rank)
            elif "error" in answer:
                raise MachineError(f"rank {rank}: {answer['error']}", answer["remedy"])
            else:
                self._answers[rank].append(answer)
        return [answers.popleft() for answers in self._answers]

    def _said(self, rank: int) -> str:
        errors = self._errors[rank]
        errors.seek(0)
        return f"It said: {errors.read()[-STDERR_CHARS:].strip() or 'nothing'}"


def measured_records(
    subject: Subject, points: Sequence[Any], ranks: Ranks, environment: Mapping[str, Any], *, idle_s: float
) -> Generator[ExchangeRecord]:
    """Yield the record of every point as it ends; points as the ranks were given them."""
    for point in points:
        yield merge(subject, shown_point(point, environment["gpus"]), ranks.next(), environment, idle_s=idle_s)


def shown_point(point: Any, gpus: int) -> dict[str, Any]:
    """Return a point as records show it.

    A transfer's bytes get the number of GPUs beside them.
    """
    return dict(point) if isinstance(point, Mapping) else {"size_bytes": point, "gpus": gpus}


def merge(
    subject: Subject, point: Mapping[str, Any], answers: Sequence[Answer], environment: Mapping[str, Any], *, idle_s: float
) -> ExchangeRecord:
    """Return one record of the answers of all ranks.

    It has the slowest time, the largest error and every GPU's bytes.
    """
    entries = tuple(
        _merge_entry(subject, point, name, [answer["entries"][name] for answer in answers]) for name in answers[0]["entries"]
    )
    idle = tuple(LinkBytes(**answer["idle"]) for answer in answers if answer["idle"])
    telemetry = tuple(answer["telemetry"] for answer in answers)
    return ExchangeRecord(subject, point, entries, idle_s if idle else 0.0, idle, telemetry, environment)


def _merge_entry(subject: Subject, point: Mapping[str, Any], name: str, found: Sequence[Answer]) -> ExchangeEntry:
    worst = next((one for one in found if one["status"] != "ok"), found[0])
    errors = [one["relative_error"] for one in found if one.get("relative_error") is not None]
    times = [one.get("times_ns", ()) for one in found]
    return ExchangeEntry(
        name,
        worst["status"],
        worst.get("reason", ""),
        tuple(max(each) for each in zip(*times, strict=True)),
        max(errors, default=None),
        found[0].get("counted_calls", 0),
        tuple(LinkBytes(**one["counted"]) for one in found if "counted" in one),
        _expected(subject, point, name),
    )


def _expected(subject: Subject, point: Mapping[str, Any], name: str) -> tuple[Ends, ...]:
    if subject == "nvlink":
        from ioaware.bench.multi_gpu.rank_links import expected_link_ends

        return expected_link_ends(name, point["size_bytes"], point["gpus"])
    from ioaware.bench.multi_gpu.exchange_points import ExchangePoint

    return ExchangePoint.of(dict(point)).ends(name)
