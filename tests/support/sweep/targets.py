"""What the sweep tests let worker processes run: well-behaved points and every way of not coming back."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ioaware.errors import MachineError, UsageError
from ioaware.result import Result, Traffic
from ioaware.result_file import encode
from ioaware.sweep.execute import execute

HANG_S = 600


def stub(job: dict[str, Any]) -> str:
    """An entry like `ioaware.sweep.execute:execute`, cheap and deterministic; the target's name chooses a misfortune."""
    _, _, name = job["target"].rpartition(":")
    if log := os.environ.get("IOAWARE_TEST_LOG"):
        with Path(log).open("a") as file:
            file.write(f"{job['params']}\n")
    globals().get(name, ok)()
    size = int(job["params"].get("seq_len") or 1)
    return encode(Result(job["source"], job["target"], job["params"], requested=Traffic(64 * size, 32 * size)))


def stub_errors(job: dict[str, Any]) -> str:
    """An entry through the real `execute`, whose source is replaced: errors take the way they take in earnest."""
    import ioaware.sweep.execute as module

    def refuse(source: str, target: str, params: Any, **options: Any) -> Result:
        raise MachineError("no counters here", "Ask for them.") if source == "measure" else UsageError("this cannot work")

    module.run_source = refuse
    return execute(job)


def ok() -> None:
    """The good point."""


def nap() -> None:
    time.sleep(0.02)


def leave_child() -> None:
    """A good point that forgets a process of its own."""
    subprocess.Popen(["sleep", str(HANG_S)])


def leave_child_apart() -> None:
    """The same, in a session of its own."""
    subprocess.Popen(["sleep", str(HANG_S)], start_new_session=True)


def crash() -> None:
    print("before the fall")
    raise RuntimeError("planted")


def leave() -> None:
    """Ends well, without a result."""
    os._exit(0)


def system_exit() -> None:
    sys.exit(0)


def segfault() -> None:
    ctypes.string_at(0)


def hang() -> None:
    while True:
        time.sleep(HANG_S)


def deaf_hang() -> None:
    """Ignores SIGTERM, and so does its child in a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", str(HANG_S)], start_new_session=True)
    hang()


def flood() -> None:
    """More output than any disk should keep."""
    block = b"x" * 2**20
    for _ in range(64):
        os.write(1, block)
    os.write(2, b"\nthe last line\n")
    os._exit(3)


def eat_memory() -> None:
    eaten: list[bytearray] = []
    while True:
        eaten.append(bytearray(2**24))


def out_of_memory() -> None:
    """What the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_server() -> None:
    """Takes the fork server along."""
    os.kill(os.getppid(), signal.SIGKILL)
    hang()
