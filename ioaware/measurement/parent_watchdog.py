"""Kill a worker when its parent dies.

The kernel releases the parent's file lock at its death.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hold_parent_lock(path: Path) -> Generator[None]:
    """Hold the lock inside the block.

    The parent does so for as long as the worker may live.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def watch_parent(path: Path) -> None:
    """Start a thread in the worker that blocks on the parent's lock.

    When the parent releases it, the thread kills the worker's process group, the profiler included.
    """

    def follow() -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=follow, name="parent_lock", daemon=True).start()
