"""Track and kill a point's process tree on Linux: marks, signals, limits, orphans."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from pathlib import Path

MARK = "IOAWARE_POINT"
"""Environment variable that every program of a point inherits.

Its value is `PID of the fork server.number of the job`.
"""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def signal_process_tree(leader: int, mark: str, number: signal.Signals) -> None:
    """Signal the leader's process group.

    SIGKILL also goes to marked processes outside the group.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    if number == signal.SIGKILL:
        kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kill every process with this mark in any session (`ncu` starts its own).

    A mark that ends in a dot matches all jobs of a server.
    """
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                if any(variable == wanted or (mark.endswith(".") and variable.startswith(wanted)) for variable in variables):
                    os.kill(int(entry.name), signal.SIGKILL)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that it can kill them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Return the process ids of this process's children, adopted ones included."""
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    return []


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def prefer_oom_kill() -> None:
    """Make this process the kernel's first choice when memory runs out.

    It is to end before the sweep does.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def limit_memory(memory_bytes: int | None) -> None:
    """Limit address space to this much beyond what is mapped.

    Not for CUDA, which maps terabytes.
    """
    if memory_bytes is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes, mapped + memory_bytes))


def _prctl(option: int, value: int) -> None:
    """Call prctl(2), which Python does not wrap."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
