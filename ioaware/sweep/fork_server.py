"""The fork server: a small process that imports torch once and forks one process per point, guards it and buries it.

It speaks JSON lines: a setup line and jobs on its standard input, one ending per job on its standard output. End of
input means that the sweep is over or dead: everything is killed. Nothing is pickled, `__main__` is never imported again
(as `multiprocessing` would), and a point's output is drained into its last few kilobytes, however much it prints.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ioaware.sweep.process_tree import (
    MARK,
    adopt_orphans,
    children,
    die_with_parent,
    limit_memory,
    signal_family,
    volunteer_for_oom,
)

TAIL_BYTES = 4096
MAX_ANSWER_BYTES = 64 * 2**20
TERMINATE_GRACE_S, KILL_GRACE_S, SHUTDOWN_S = 2.0, 5.0, 3.0


@dataclass
class _Job:
    """A point being answered. `patience` lists what comes next when it does not end: signals, at last giving up."""

    number: int
    pid: int
    output: int
    answer: Path
    patience: list[tuple[float, signal.Signals | None]]
    timed_out: bool = False
    tail: bytes = b""

    @property
    def mark(self) -> str:
        return f"{os.getpid()}.{self.number}"


class _Server:
    def __init__(self, commands: int, endings: int, folder: Path) -> None:
        self.commands, self.endings, self.folder = commands, endings, folder
        self.jobs: dict[int, _Job] = {}
        self.selector = selectors.DefaultSelector()
        self.wakeup, self.wakeup_writer = os.pipe()
        for descriptor in (self.wakeup, self.wakeup_writer):
            os.set_blocking(descriptor, False)
        self.unread = b""
        self.entry = ""

    def serve(self) -> None:
        """Runs until the input ends."""
        setup = self._first_line()
        self.entry = setup["entry"]
        for name in setup["preload"]:
            with contextlib.suppress(Exception):  # the point that needs it will say why
                importlib.import_module(name)
        gc.freeze()  # collections in the children then leave the shared pages alone
        signal.signal(signal.SIGCHLD, _wake_up)
        signal.set_wakeup_fd(self.wakeup_writer, warn_on_full_buffer=False)
        adopt_orphans()
        self.selector.register(self.commands, selectors.EVENT_READ)
        self.selector.register(self.wakeup, selectors.EVENT_READ)
        self._start_jobs()
        while self._step():
            pass

    def _first_line(self) -> dict[str, Any]:
        while b"\n" not in self.unread:
            data = os.read(self.commands, 2**16)
            if not data:
                sys.exit(0)
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)

    def _start_jobs(self) -> None:
        *lines, self.unread = self.unread.split(b"\n")
        for line in lines:
            self._start(json.loads(line))

    def _step(self) -> bool:
        """Waits for a job, an output, an end or a deadline. False when the input has ended."""
        now = time.monotonic()
        next_s = min((job.patience[0][0] - now for job in self.jobs.values()), default=None)
        for key, _ in self.selector.select(None if next_s is None else max(next_s, 0.0)):
            if key.fd == self.commands:
                data = os.read(self.commands, 2**16)
                if not data:
                    return False
                self.unread += data
                self._start_jobs()
            elif key.fd == self.wakeup:
                os.read(self.wakeup, 2**12)
            else:
                self._drain(key.data)
        self._bury()
        self._lose_patience()
        return True

    def _start(self, command: dict[str, Any]) -> None:
        """Forks the process of one point."""
        number: int = command["number"]
        answer = self.folder / str(number)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._become_point(command, answer, writer)
        os.close(writer)
        os.set_blocking(reader, False)
        deadline: float = time.monotonic() + command["timeout_s"]
        kill = deadline + TERMINATE_GRACE_S
        patience: list[tuple[float, signal.Signals | None]] = [
            (deadline, signal.SIGTERM),
            (kill, signal.SIGKILL),
            (kill + KILL_GRACE_S, None),
        ]
        job = _Job(number, pid, reader, answer, patience)
        self.jobs[pid] = job
        self.selector.register(reader, selectors.EVENT_READ, job)

    def _become_point(self, command: dict[str, Any], answer: Path, output: int) -> NoReturn:
        """In the child: a session of its own, the output to the server, then the work. Never returns."""
        code = 1
        try:
            os.setsid()
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (
                self.commands,
                self.endings,
                self.wakeup,
                self.wakeup_writer,
                *(job.output for job in self.jobs.values()),
            ):
                os.close(descriptor)
            self.selector.close()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            os.environ[MARK] = f"{os.getppid()}.{command['number']}"
            volunteer_for_oom()
            limit_memory(command["memory_bytes"])
            module, _, function = self.entry.partition(":")
            text: str = getattr(importlib.import_module(module), function)(command["job"])
            partial = answer.with_suffix(".partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(answer)
            code = 0
        except BaseException:  # SystemExit and KeyboardInterrupt of the work too: the server must hear how it ended
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            os._exit(code)

    def _drain(self, job: _Job) -> None:
        """Reads what is there now, keeping only the end of it."""
        for _ in range(16):
            try:
                data = os.read(job.output, 2**16)
            except BlockingIOError:
                return
            if not data:
                self.selector.unregister(job.output)
                return
            job.tail = (job.tail + data)[-TAIL_BYTES:]

    def _bury(self) -> None:
        """Reports every point whose process has ended, after killing what it left behind."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            job = self.jobs.get(ended.si_pid)
            if job is not None:
                signal_family(
                    job.pid, job.mark, signal.SIGKILL
                )  # while its process is a zombie nobody else can have its group's number
            os.waitpid(ended.si_pid, 0)
            if job is not None:
                self._report(job, "exit" if ended.si_code == os.CLD_EXITED else "signal", ended.si_status)

    def _lose_patience(self) -> None:
        now = time.monotonic()
        for job in list(self.jobs.values()):
            if now < job.patience[0][0]:
                continue
            _, number = job.patience.pop(0)
            job.timed_out = True
            if number is None:
                self._report(job, "stuck", 0)
            else:
                signal_family(job.pid, job.mark, number)

    def _report(self, job: _Job, ended: str, code: int) -> None:
        """Tells the sweep how a point ended; the answer counts only from a process that ended well."""
        if job.output in self.selector.get_map():
            self._drain(job)
        if job.output in self.selector.get_map():
            self.selector.unregister(job.output)
        os.close(job.output)
        del self.jobs[job.pid]
        answer = None
        if (ended, code) == ("exit", 0) and job.answer.exists() and job.answer.stat().st_size <= MAX_ANSWER_BYTES:
            answer = job.answer.read_text(encoding="utf-8")
        job.answer.unlink(missing_ok=True)
        ending = {
            "number": job.number,
            "ended": "timeout" if job.timed_out else ended,
            "code": code,
            "answer": answer,
            "tail": job.tail.decode("utf-8", "replace"),
        }
        line = json.dumps(ending).encode() + b"\n"
        while line:
            line = line[os.write(self.endings, line) :]

    def shut_down(self) -> None:
        """Kills every point and, as their adopted parent, whatever they started."""
        for job in self.jobs.values():
            signal_family(job.pid, job.mark, signal.SIGKILL)
        end = time.monotonic() + SHUTDOWN_S
        while time.monotonic() < end:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                for orphan in children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(orphan, signal.SIGKILL)
                time.sleep(0.01)


def _wake_up(number: int, frame: FrameType | None) -> None:
    """Nothing: that the signal has a handler is what makes it write to the wakeup pipe."""


def main() -> None:
    """Entry of the server process. Whatever libraries print must not get between the lines of the protocol."""
    commands, endings = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="ioaware-sweep-") as folder:
        server = _Server(commands, endings, Path(folder))
        try:
            server.serve()
        finally:
            server.shut_down()
