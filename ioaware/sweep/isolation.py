"""Run one process per job.

Submit a job, and wait for its outcome, crashes and hangs included.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Literal, cast

from ioaware._deferred_signals import deferred_signals
from ioaware.sweep.fork_server import SHUTDOWN_S
from ioaware.sweep.process_tree import kill_marked

_START = """
import json, pathlib, sys
sys.path[:] = json.loads(sys.argv[1])
from ioaware.sweep.fork_server import main
main(pathlib.Path(sys.argv[2]))
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended.

    `answer` is what its function returned; None unless its process ended with exit code 0.

    `code` is an exit code or a signal's number; `tail` the end of its output.
    """

    number: int
    ended: Literal["exit", "signal", "timeout", "stuck", "lost"]
    code: int
    answer: str | None
    tail: str

    @property
    def problem(self) -> str:
        """One sentence on why there is no answer."""
        if self.ended == "exit":
            return f"its process ended with exit code {self.code} and no result"
        if self.ended == "signal":
            name = signal.Signals(self.code).name
            return f"its process was killed by {name}" + (" (out of memory?)" if self.code == signal.SIGKILL else "")
        return {
            "timeout": "it ran into the time limit and was killed",
            "stuck": "it ran into the time limit and could not be killed",
            "lost": "the process that isolates points died",
        }[self.ended]


class Isolation:
    """Run `entry`, from a JSON value to text, in one forked process per job.

    It is a `module:function`. Use it in a `with`.

    The fork server starts with the first job, and again if it dies. `preload` names the modules imported before forking.
    """

    def __init__(self, entry: str, *, preload: Sequence[str] = (), threads: int = 1) -> None:
        self._setup = {"entry": entry, "preload": list(preload)}
        self._threads = threads
        self._server: _Server | None = None
        self._running: set[int] = set()
        self._lost: list[Outcome] = []

    def __enter__(self) -> Isolation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def submit(self, number: int, job: Any, timeout_s: float, memory_bytes: int | None = None) -> None:
        """Start a job; `next` returns its outcome."""
        if self._server is None:
            with deferred_signals():  # its process and its directory are known before anything can end this one
                self._server = _Server(self._setup, self._threads)
        self._running.add(number)
        self._server.send({"number": number, "job": job, "timeout_s": timeout_s, "memory_bytes": memory_bytes})

    def next(self) -> Outcome:
        """Wait for a job to end.

        If the server dies, all its jobs are lost and the next job starts another server.
        """
        if not self._lost:
            if self._server is None:
                raise RuntimeError("no job was submitted")
            line = self._server.outcomes.readline()
            if line.endswith(b"\n"):
                outcome = Outcome(**json.loads(line))
                self._running.discard(outcome.number)
                return outcome
            tail = self._server.kill()
            self._server = None
            self._lost = [Outcome(number, "lost", 0, None, tail) for number in self._running]
            self._running.clear()
        return self._lost.pop()

    def abort(self) -> None:
        """Kill the running jobs, from any thread; `next` then reports them as lost."""
        server = self._server
        if server is not None:
            with contextlib.suppress(BrokenPipeError):
                server.commands.close()

    def close(self) -> None:
        """Kill the running jobs and wait for their end."""
        if self._server is not None:
            self._server.kill()
            self._server = None


class _Server:
    """The fork server, in its own session so that Ctrl-C reaches only the sweep."""

    def __init__(self, setup: Mapping[str, Any], threads: int) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  closed in kill()
        self.folder = tempfile.mkdtemp(prefix="ioaware-sweep-")
        self.process = subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-W", "ignore", "-c", _START, json.dumps(sys.path), self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)},
        )
        self.commands = cast("IO[bytes]", self.process.stdin)
        self.outcomes = cast("IO[bytes]", self.process.stdout)
        self.send(setup)

    def send(self, line: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # reading its outcomes shows that it is dead
            self.commands.write(json.dumps(line).encode() + b"\n")
            self.commands.flush()

    def kill(self) -> str:
        """Kill the server and all its points; return the end of its output."""
        with contextlib.suppress(BrokenPipeError):
            self.commands.close()
        try:
            self.process.wait(SHUTDOWN_S + 1)
        except subprocess.TimeoutExpired:  # still importing
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        kill_marked(f"{self.process.pid}.")
        shutil.rmtree(self.folder, ignore_errors=True)  # the server does it too, unless it was killed
        self.outcomes.close()
        with self.log:
            self.log.seek(max(self.log.seek(0, os.SEEK_END) - 2000, 0))
            return self.log.read().decode("utf-8", "replace")
