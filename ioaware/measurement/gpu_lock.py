"""Exclusive lock of a GPU: workers compile in parallel and measure one at a time."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ioaware.errors import MachineError

POLL_S = 0.05


@contextmanager
def gpu_lease(
    uuid: str,
    *,
    timeout_s: float,
    waiting: Path | None = None,
    directory: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[None]:
    """Hold the GPU's lock inside the block.

    The kernel releases it even if the process is killed.

    The file `waiting` exists while this waits, so that the caller can leave that time out of its limit. Raises
    `MachineError` after `timeout_s` seconds.
    """
    name = re.sub(r"[^A-Za-z0-9-]", "_", uuid)
    descriptor = _open((directory or Path(tempfile.gettempdir())) / f"ioaware-{name}.lock")
    try:
        _wait(descriptor, uuid, timeout_s, waiting, clock, sleep)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the lock file.

    Read access suffices, so another user's file works; a symbolic link is refused.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            return os.open(path, flags | os.O_CREAT, 0o644)
    except OSError as error:
        raise MachineError(
            f"the lock of the GPU, {path}, cannot be opened ({error.strerror})", "Set TMPDIR elsewhere."
        ) from error


def _wait(
    descriptor: int,
    uuid: str,
    timeout_s: float,
    waiting: Path | None,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    deadline = clock() + timeout_s
    try:
        while not _lock(descriptor):
            if waiting is not None:
                waiting.touch()
            if clock() >= deadline:
                raise MachineError(
                    f"another ioaware measurement has held {uuid} for {timeout_s:.0f} s",
                    "Wait for it to end, or give this one more time.",
                )
            sleep(POLL_S)
    finally:
        if waiting is not None:
            with suppress(FileNotFoundError):
                waiting.unlink()


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
