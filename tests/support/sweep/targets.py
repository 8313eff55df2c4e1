"""Points that the sweep tests run in workers.

They are successes, and every way to end without a result.
"""

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
from ioaware.result import Launch, Result, Traffic
from ioaware.result_file import encode
from ioaware.sweep.execute import execute

HANG_S = 600


def stub(job: dict[str, Any]) -> str:
    """Fake entry for `ioaware.sweep.execute:execute`.

    The target's name chooses a failure.
    """
    _, _, name = job["target"].rpartition(":")
    if log := os.environ.get("IOAWARE_TEST_LOG"):
        with Path(log).open("a") as file:
            file.write(f"{job['params']}\n")
    globals().get(name, ok)()
    size = int(job["params"].get("seq_len") or 1)
    return encode(Result(job["source"], job["target"], job["params"], requested=Traffic(64 * size, 32 * size)))


def tuned_stub(job: dict[str, Any]) -> str:
    """Measure the kernel's second configuration.

    Derive the required one, or the first.
    """
    chosen: dict[str, int] = {"BLOCK": 128, "num_warps": 8} if job["source"] == "measure" else {"BLOCK": 64}
    if job["autotune"]:
        chosen = {name.removeprefix("kernel:"): value for name, value in job["autotune"].items()}
    launch = Launch("kernel", (1,), configuration=chosen)
    return encode(Result(job["source"], job["target"], job["params"], launches=(launch,)))


def stub_errors(job: dict[str, Any]) -> str:
    """Run the real `execute` with a replaced source.

    Errors then take their real path.
    """
    import ioaware.sweep.execute as module

    def refuse(source: str, target: str, params: Any, **options: Any) -> Result:
        raise MachineError("no counters here", "Ask for them.") if source == "measure" else UsageError("this cannot work")

    module.run_source = refuse
    return execute(job)


def ok() -> None:
    """A point that succeeds."""


def long_nap() -> None:
    time.sleep(0.3)


def nap() -> None:
    time.sleep(0.02)


def leave_child() -> None:
    """A point that succeeds and leaves a child process."""
    subprocess.Popen(["sleep", str(HANG_S)])


def leave_child_apart() -> None:
    """As leave_child, with the child in its own session."""
    subprocess.Popen(["sleep", str(HANG_S)], start_new_session=True)


def crash() -> None:
    print("before the error")
    raise RuntimeError("planted")


def leave() -> None:
    """End with exit code 0 and no result."""
    os._exit(0)


def system_exit() -> None:
    sys.exit(0)


def segfault() -> None:
    ctypes.string_at(0)


def hang() -> None:
    while True:
        time.sleep(HANG_S)


def hang_ignoring_sigterm() -> None:
    """Ignore SIGTERM, with a child in its own session that hangs too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", str(HANG_S)], start_new_session=True)
    hang()


def flood() -> None:
    """Print more than any disk should store."""
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
    """End as the kernel's OOM killer ends a process."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_server() -> None:
    """Kill the fork server."""
    os.kill(os.getppid(), signal.SIGKILL)
    hang()


def kill_worker() -> None:
    """Kill the cluster's worker that runs this point: the parent of the fork server."""
    os.kill(_cluster_worker(), signal.SIGKILL)
    hang()


def kill_worker_once() -> None:
    """Kill the first worker that runs this point."""
    if _first_time("killed"):
        kill_worker()


def stop_worker_once() -> None:
    """Make the first worker that runs this point hang."""
    if _first_time("stopped"):
        os.kill(_cluster_worker(), signal.SIGSTOP)
        hang()


def _cluster_worker() -> int:
    """Return the parent's parent."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def _first_time(name: str) -> bool:
    try:
        (Path(os.environ["IOAWARE_TEST_FAMILY"]) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
