"""Compile before the race in parallel processes; a crash affects one process only.

The disk cache keeps the kernels. A process reads jobs from stdin, one JSON object per line, and writes the result of each of
their points to stdout.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, cast

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import BackEnd, UnsupportedError
from ioaware.bench.race_record import Status
from ioaware.bench.registry import back_ends

TIMEOUT_S = 180.0
"""A point that takes longer to compile and run once counts as hanging."""

Verdict = tuple[Status, str]
Group = tuple[str, list[Point]]
News = tuple[str, Point, Verdict] | Exception | None
"""Report of a thread: a point and its status, an error, or None when it is done."""


def compile_groups(points: Sequence[Point], ends: Sequence[BackEnd]) -> list[Group]:
    """Group points that share kernels: a back end, a pass, a head_dim and a mask."""
    found: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for end in ends:
        if end.compiles and end.present:
            for point in points:
                found[end.name, point.what, point.head_dim, point.causal].append(point)
    return [(str(key[0]), group) for key, group in found.items()]


def precompile(
    points: Sequence[Point],
    ends: Sequence[BackEnd],
    tutorial: Path | None,
    *,
    processes: int | None = None,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,  # noqa: ARG005
    command: Sequence[str] = (sys.executable, "-m", "ioaware.bench.precompile"),
    timeout_s: float = TIMEOUT_S,
) -> dict[tuple[Point, str], Verdict]:
    """Run every back end that compiles once at every point.

    Returns those that failed, and why.
    """
    waiting: queue.SimpleQueue[Group] = queue.SimpleQueue()
    every = compile_groups(points, ends)
    for group in every:
        waiting.put(group)
    total, count = sum(len(group) for _, group in every), 0
    exclusions: dict[tuple[Point, str], Verdict] = {}
    news: queue.SimpleQueue[News] = queue.SimpleQueue()
    compilers = [
        _CompileProcess(waiting, tutorial, command, timeout_s, news) for _ in range(min(processes or _cores(), len(every)))
    ]
    for compiler in compilers:
        compiler.start()
    try:
        running = len(compilers)
        while running:
            message = news.get()
            if message is None:
                running -= 1
            elif isinstance(message, Exception):
                raise message
            else:
                name, point, verdict = message
                if verdict[0] != "ok":
                    exclusions[point, name] = verdict
                count += 1
                progress(count, total, f"{name} {point.label}")
    finally:
        for compiler in compilers:
            compiler.stop()
    return exclusions


def _cores() -> int:
    """Return the number of usable cores, at most 16."""
    return min(16, len(os.sched_getaffinity(0)))


class _CompileProcess(threading.Thread):
    """A thread that owns one process at a time, and replaces each that dies."""

    def __init__(
        self,
        waiting: queue.SimpleQueue[Group],
        tutorial: Path | None,
        command: Sequence[str],
        timeout_s: float,
        news: queue.SimpleQueue[News],
    ) -> None:
        super().__init__(daemon=True)
        self.waiting, self.tutorial, self.command, self.timeout_s, self.news = waiting, tutorial, command, timeout_s, news
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Process groups until none is left."""
        try:
            while True:
                name, points = self.waiting.get_nowait()
                while points:
                    points = self._points(name, points)
        except queue.Empty:
            self.news.put(None)
        except Exception as error:  # raised again in the main thread
            self.news.put(error)
        self.stop()

    def _points(self, name: str, points: list[Point]) -> list[Point]:
        """Send these points to the process; return those after one that killed it."""
        process = self._living()
        job = {"name": name, "tutorial": self.tutorial and str(self.tutorial), "points": [point.to_dict() for point in points]}
        questions, answers = cast("tuple[IO[str], IO[str]]", (process.stdin, process.stdout))
        try:
            questions.write(json.dumps(job) + "\n")
            questions.flush()
        except BrokenPipeError:
            pass  # it reads as a death below
        for number, point in enumerate(points):
            alarm = threading.Timer(self.timeout_s, process.kill)
            alarm.start()
            line = answers.readline()
            alarm.cancel()
            if not line:
                code = process.wait()
                self.stop()
                why = f"died by signal {-code}" if code < 0 else f"ended with code {code}"
                self.news.put((name, point, ("failed", f"its process {why} while it compiled or first ran")))
                return points[number + 1 :]
            said: Any = json.loads(line)
            self.news.put((name, point, (said["status"], said["reason"])))
        return []

    def _living(self) -> subprocess.Popen[str]:
        """Return the running process; start one if there is none."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        return self.process

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def main() -> int:
    """Process jobs from stdin until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # stdout carries answers only, not a library's prints
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    for line in sys.stdin:
        job: Any = json.loads(line)
        end = back_ends(Path(job["tutorial"]) if job["tutorial"] else None)[job["name"]]
        for data in job["points"]:
            status, reason, lost = _compile_and_run(end, Point.of(data))
            answers.write(json.dumps({"status": status, "reason": reason}) + "\n")
            answers.flush()
            if lost:
                return 1
    return 0


def _compile_and_run(end: BackEnd, point: Point) -> tuple[Status, str, bool]:
    """Compile and run one point.

    Return status, reason and whether the CUDA context is lost.
    """
    from ioaware.bench.gpu_timing import Device
    from ioaware.bench.run import describe
    from ioaware.bench.workload import shapes, work

    device = Device()
    try:
        candidate = end.prepare(point)
        inputs = device.inputs(shapes(point), point.dtype, 0)
        with device.on_side_stream(), candidate.within():
            work(point, candidate, inputs)()
        device.torch.cuda.synchronize()
    except UnsupportedError as refusal:
        return "unsupported", str(refusal), False
    except Exception as error:  # a back end may raise anything
        return "failed", describe(error), device.lost()
    return "ok", "", False


if __name__ == "__main__":
    sys.exit(main())
