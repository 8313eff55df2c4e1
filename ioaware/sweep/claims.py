"""Divide the points of a store between concurrent sweeps.

The means is byte-range locks of a file beside it.

The kernel releases the locks of a process that dies. The file has no content, and the last sweep removes it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from ioaware._atomic_file import cannot_write
from ioaware.sweep.points import Point


def claim_key(point: Point, machine: str) -> str:
    """Return what identifies a point's record in a store."""
    return f"{point.key}\n{machine}"


class Claims:
    """Points of one store that this process has claimed.

    Raises `WriteError` where the file cannot be created.
    """

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + "-claims")
        self._descriptor = self._open()

    def _open(self) -> int:
        """Open the file at the path.

        Another sweep may remove it between the two steps, and then there is a new one.
        """
        while True:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise cannot_write(self.path, error) from error
            fcntl.lockf(descriptor, fcntl.LOCK_SH, 1, 0)  # keeps the file from being removed
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                    return descriptor
            os.close(descriptor)

    def take(self, key: str) -> bool:
        """Claim a point; False where another process has it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
        except BlockingIOError:
            return False
        return True

    def release(self, key: str) -> None:
        """Give up a claim."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _place(key))

    def close(self) -> None:
        """Give up every claim, and remove the file where no other sweep has it open."""
        with suppress(OSError):
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            self.path.unlink()
        os.close(self._descriptor)


def _place(key: str) -> int:
    """Return the byte of a point: 1 to 2^56."""
    return 1 + int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")
