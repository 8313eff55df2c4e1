"""Run a fork server, which forks one process per point.

It is a small process that imports torch once, and limits and reaps the others.

The protocol is JSON lines. Input: a setup line, then jobs. Output: one outcome per job. End of input: the sweep has ended or
died, so all points are killed. Nothing is pickled, and `__main__` is not imported again as `multiprocessing` would. Only the
last few kilobytes of a point's output are kept.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import sys
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
    prefer_oom_kill,
    signal_process_tree,
)

TAIL_BYTES = 4096
MAX_ANSWER_BYTES = 64 * 2**20
TERMINATE_GRACE_S, KILL_GRACE_S, SHUTDOWN_S = 2.0, 5.0, 3.0


@dataclass
class _Job:
    """A running point.

    `deadlines` lists what follows if it does not end: signals, then giving up (None).
    """

    number: int
    pid: int
    output: int
    answer: Path
    deadlines: list[tuple[float, signal.Signals | None]]
    timed_out: bool = False
    tail: bytes = b""

    @property
    def mark(self) -> str:
        return f"{os.getpid()}.{self.number}"


class _Server:
    def __init__(self, commands: int, outcomes: int, folder: Path) -> None:
        self.commands, self.outcomes, self.folder = commands, outcomes, folder
        self.jobs: dict[int, _Job] = {}
        self.selector = selectors.DefaultSelector()
        self.wakeup, self.wakeup_writer = os.pipe()
        for descriptor in (self.wakeup, self.wakeup_writer):
            os.set_blocking(descriptor, False)
        self.unread = b""
        self.entry = ""

    def serve(self) -> None:
        """Run until the input ends."""
        setup = self._first_line()
        self.entry = setup["entry"]
        gc.disable()  # what modules make stays
        for name in setup["preload"]:
            with contextlib.suppress(Exception):  # the point that needs it reports the error
                importlib.import_module(name)
        gc.freeze()  # collections in the children then leave the shared pages alone
        gc.enable()
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
        """Wait for a job, output, a process end or a deadline.

        Return False at the end of the input.
        """
        now = time.monotonic()
        next_s = min((job.deadlines[0][0] - now for job in self.jobs.values()), default=None)
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
        self._reap()
        self._escalate()
        return True

    def _start(self, command: dict[str, Any]) -> None:
        """Fork the process of one point."""
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
        deadlines: list[tuple[float, signal.Signals | None]] = [
            (deadline, signal.SIGTERM),
            (kill, signal.SIGKILL),
            (kill + KILL_GRACE_S, None),
        ]
        job = _Job(number, pid, reader, answer, deadlines)
        self.jobs[pid] = job
        self.selector.register(reader, selectors.EVENT_READ, job)

    def _become_point(self, command: dict[str, Any], answer: Path, output: int) -> NoReturn:
        """Run the point in the child: a new session, output to the server. Never returns."""
        code = 1
        try:
            os.setsid()
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (
                self.commands,
                self.outcomes,
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
            prefer_oom_kill()
            limit_memory(command["memory_bytes"])
            module, _, function = self.entry.partition(":")
            text: str = getattr(importlib.import_module(module), function)(command["job"])
            partial = answer.with_suffix(".partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(answer)
            code = 0
        except BaseException:  # SystemExit and KeyboardInterrupt of the work too: the server must learn how it ended
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            os._exit(code)

    def _drain(self, job: _Job) -> None:
        """Read the available output and keep only its end."""
        for _ in range(16):
            try:
                data = os.read(job.output, 2**16)
            except BlockingIOError:
                return
            if not data:
                self.selector.unregister(job.output)
                return
            job.tail = (job.tail + data)[-TAIL_BYTES:]

    def _reap(self) -> None:
        """Report every point whose process has ended.

        Its leftover processes are killed first.
        """
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            job = self.jobs.get(ended.si_pid)
            if job is not None:
                # Its process is still a zombie, so no other process group can have its number.
                signal_process_tree(job.pid, job.mark, signal.SIGKILL)
            os.waitpid(ended.si_pid, 0)
            if job is not None:
                self._report(job, "exit" if ended.si_code == os.CLD_EXITED else "signal", ended.si_status)

    def _escalate(self) -> None:
        now = time.monotonic()
        for job in list(self.jobs.values()):
            if now < job.deadlines[0][0]:
                continue
            _, number = job.deadlines.pop(0)
            job.timed_out = True
            if number is None:
                self._report(job, "stuck", 0)
            else:
                signal_process_tree(job.pid, job.mark, number)

    def _report(self, job: _Job, ended: str, code: int) -> None:
        """Send the sweep a point's outcome.

        Its answer counts only if the process ended with exit code 0.
        """
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
        outcome = {
            "number": job.number,
            "ended": "timeout" if job.timed_out else ended,
            "code": code,
            "answer": answer,
            "tail": job.tail.decode("utf-8", "replace"),
        }
        line = json.dumps(outcome).encode() + b"\n"
        while line:
            line = line[os.write(self.outcomes, line) :]

    def shut_down(self) -> None:
        """Kill every point and the orphans adopted from it."""
        for job in self.jobs.values():
            signal_process_tree(job.pid, job.mark, signal.SIGKILL)
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
    """Do nothing: a signal with a handler writes to the wakeup pipe."""


def main(folder: Path) -> None:
    """Run the server process with a directory for its points' answers.

    Output of libraries must not mix with the protocol's lines.
    """
    commands, outcomes = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    server = _Server(commands, outcomes, folder)
    try:
        server.serve()
    finally:
        server.shut_down()
        shutil.rmtree(folder, ignore_errors=True)  # the sweep may be dead
