"""A worker does not outlive whoever waits for it: a file lock that the kernel drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hold_lifeline(path: Path) -> Generator[None]:
    """Held by the process that waits, for as long as the worker may live."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def follow_lifeline(path: Path) -> None:
    """In the worker: a thread that sleeps until the lifeline is let go, then kills the worker's process group, the
    profiler that started it included."""

    def follow() -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=follow, name="lifeline", daemon=True).start()
