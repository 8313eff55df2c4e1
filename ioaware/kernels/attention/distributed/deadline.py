"""Abort a group of NCCL when a transfer has not completed in time.

A thread of its own watches the time. Why: the host may be inside a call that has no limit. NCCL connects to a rank that is gone
for a minute, and CUDA loads a kernel only when NCCL's kernel, which waits for that rank, has left the GPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import torch.distributed as dist

POLL_S = 0.0002


class Deadline:
    """The time limit of one transfer, from when it is made."""

    def __init__(self, limit_s: float, abort: Callable[[], None]) -> None:
        self.works: Sequence[dist.Work] | None = None
        """The transfer; None while the host is still starting it."""
        self.expired = False
        self._limit_s, self._abort = limit_s, abort
        self._timer = threading.Timer(limit_s, self._expire)
        self._timer.daemon = True
        self._timer.start()

    @property
    def reason(self) -> str:
        """Return what an error says of a transfer that was too late."""
        return f"not complete after {self._limit_s:g} s"

    def wait(self) -> None:
        """Wait on the host until the transfer has completed.

        Raises RuntimeError where it was aborted. Why not `Work.wait(timeout)`: after its limit NCCL's watchdog may end the
        whole process before the caller sees an error.
        """
        while not self.expired and not self._is_complete():
            time.sleep(POLL_S)
        self.cancel()
        if self.expired:
            raise RuntimeError(self.reason)

    def cancel(self) -> None:
        """Stop watching; where the time is over, wait until the group is aborted."""
        self._timer.cancel()
        self._timer.join()

    def _is_complete(self) -> bool:
        return self.works is not None and all(work.is_completed() for work in self.works)

    def _expire(self) -> None:
        if not self._is_complete():
            self.expired = True
            self._abort()
