"""A point's family of processes on Linux: marking it, signalling all of it, limiting it, and letting none of it survive."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from pathlib import Path

MARK = "IOAWARE_POINT"
"""Environment variable that every program a point starts inherits: `PID of the fork server.number of the job`."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def signal_family(leader: int, mark: str, number: signal.Signals) -> None:
    """Signals the leader's process group; killing also reaches those who left the group but carry the mark."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    if number == signal.SIGKILL:
        kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kills every process whose environment was marked so: `ncu` and its like, in whatever session they put themselves.

    A mark that ends in a dot stands for all jobs of a server.
    """
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                if any(variable == wanted or (mark.endswith(".") and variable.startswith(wanted)) for variable in variables):
                    os.kill(int(entry.name), signal.SIGKILL)


def adopt_orphans() -> None:
    """From now on a descendant whose parent dies becomes a child of this process, which can then end it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """The process numbers of this process's children, adopted ones included."""
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    return []


def die_with_parent() -> None:
    """Should the fork server be killed, the point is too."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def volunteer_for_oom() -> None:
    """When memory runs out the kernel takes this process first, not the sweep."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def limit_memory(memory_bytes: int | None) -> None:
    """Limits address space to so much beyond what is mapped already. Not for CUDA, which maps terabytes."""
    if memory_bytes is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes, mapped + memory_bytes))


def _prctl(option: int, value: int) -> None:
    """prctl(2), which Python does not wrap."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
