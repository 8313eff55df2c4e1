"""Continue in a forked child under time and memory limits.

Report any kind of death as one sentence.

The child continues as the original process would and ends it; the parent waits. Memory is the resident set as the kernel
reports it. Why not `RLIMIT_AS`: CUDA reserves terabytes of addresses.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import os
import re
import resource
import select
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ioaware.errors import UsageError
from ioaware.targets.loading import is_library

POLL_S = 0.1
PR_SET_PDEATHSIG = 1
SHARE_OF_MEMORY = 0.8


class ChildDiedError(Exception):
    """The stacks of a child that a signal killed, as `faulthandler` wrote them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the child's time and memory."""

    seconds: float
    memory_bytes: int


def default_memory_bytes() -> int:
    """Return 80 % of this machine's memory, or of the container's if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return int(SHARE_OF_MEMORY * total)


def continue_in_child(name: str, limits: Limits) -> int | None:
    """Fork, and return None in the child and its exit code in the parent.

    The parent gets the exit code when the child has ended.

    Raises `UsageError` in the parent if the child did not end by itself: killed by a signal, `os._exit`, a limit. `name` is the
    target, for the message. Call it before any thread exists.

    The child's temporary files are in a directory that the parent removes: a killed child removes nothing.
    """
    scratch = tempfile.mkdtemp(prefix="ioaware-")
    pid = -1
    try:
        ended_reader, ended_writer = os.pipe()
        with tempfile.TemporaryFile() as crash:
            pid = os.fork()
            if pid == 0:
                os.close(ended_reader)
                _prepare_child(ended_writer, crash, scratch)
                return None
            os.close(ended_writer)
            return _end_of(pid, ended_reader, crash, name, limits)
    finally:
        if pid != 0:
            shutil.rmtree(scratch, ignore_errors=True)


def _end_of(pid: int, ended_reader: int, crash: IO[bytes], name: str, limits: Limits) -> int:
    """Wait for the child, and return its exit code or raise `UsageError`."""
    try:
        exceeded = _wait(pid, limits)
    finally:
        _kill(pid)  # and what it started, while its number cannot be another's
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with os.fdopen(ended_reader, "rb") as reader:
        ended = bool(reader.read(1)) and not exceeded
    if ended and status >= 0:
        return status
    crash.seek(0)
    stacks = crash.read().decode("utf-8", "replace")
    raise UsageError(f"{name} {exceeded or _death(status, stacks)}", _remedy(exceeded)) from ChildDiedError(stacks)


def _prepare_child(ended: int, crash: IO[bytes], scratch: str) -> None:
    """Lead a process group, and die with the parent.

    Crashes are recorded, and a regular end is reported through `ended`. Temporary files go to `scratch`.
    """
    tempfile.tempdir = scratch
    os.setsid()
    with contextlib.suppress(OSError, AttributeError):
        libc: Any = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(os.dup(crash.fileno()), all_threads=False)
    atexit.register(os.write, ended, b"1")


def _wait(pid: int, limits: Limits) -> str:
    """Wait until the child ends; kill it beyond a limit and return which one."""
    deadline = time.monotonic() + limits.seconds
    descriptor = os.pidfd_open(pid)
    try:
        while not select.select([descriptor], [], [], POLL_S)[0]:
            if time.monotonic() > deadline:
                _kill(pid)
                return f"ran for more than {limits.seconds:g} s and was stopped"
            if _resident_bytes(pid) > limits.memory_bytes:
                _kill(pid)
                return f"used more than {limits.memory_bytes / 2**30:.3g} GiB of memory and was stopped"
    finally:
        os.close(descriptor)
    return ""


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return 0


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _death(status: int, stacks: str) -> str:
    if status >= 0:
        return f"ended its process with exit code {status}"
    try:
        cause = signal.Signals(-status).name
    except ValueError:
        cause = f"signal {-status}"
    frames = re.findall(r'^  File "(.+)", line (\d+) in', stacks, re.MULTILINE)  # innermost first
    own = [f" at {Path(file).name}:{line}" for file, line in frames if not is_library(file)]
    return f"was killed by {cause}{own[0] if own else ''}"


def _remedy(exceeded: str) -> str:
    if exceeded:
        return "Choose smaller sizes, or a higher limit: --timeout SECONDS, --memory GIB."
    return "The function must run by itself first."
