"""Limit the time of a transfer of NCCL, whatever the host is doing meanwhile.

Two calls of the host have no limit of their own. NCCL connects to a rank that is gone for a minute, and a communicator must not
be aborted in the middle of that: a thread of its own makes the call, and is left behind where it is late. CUDA loads a kernel
only when NCCL's kernel, which waits for another rank, has left the GPU: a timer aborts the group.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

POLL_S = 0.0002


def late(limit_s: float) -> RuntimeError:
    """Return the error of a transfer that took longer."""
    return RuntimeError(f"not complete after {limit_s:g} s")


def start_within(
    limit_s: float, start: Callable[[], Sequence[dist.Work]], device: torch.device | None
) -> tuple[dist.Work, ...]:
    """Return what `start` returns, called on this thread's stream of the device.

    Raises its RuntimeError or ValueError, or RuntimeError after the limit.
    """
    works: list[dist.Work] = []
    errors: list[Exception] = []
    stream = torch.cuda.current_stream(device) if device else None

    def call() -> None:
        try:
            with torch.cuda.stream(stream):
                works.extend(start())
        except (RuntimeError, ValueError) as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(limit_s)
    if errors:
        raise errors[0]
    if thread.is_alive():
        raise late(limit_s)
    return tuple(works)


class Deadline:
    """The time limit of a transfer that has started."""

    def __init__(self, limit_s: float, works: Sequence[dist.Work], abort: Callable[[], None]) -> None:
        self.expired = False
        self._limit_s, self._works, self._abort = limit_s, works, abort
        self._timer = threading.Timer(limit_s, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def wait(self) -> None:
        """Wait on the host until the transfer has completed.

        Raises RuntimeError where it was aborted. Why not `Work.wait(timeout)`: after its limit NCCL's watchdog may end the
        whole process before the caller sees an error.
        """
        while not self.expired and not self._is_complete():
            time.sleep(POLL_S)
        self._timer.cancel()
        self._timer.join()  # where the time is over, until the group is aborted
        if self.expired:
            raise late(self._limit_s)

    def _is_complete(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def _expire(self) -> None:
        if not self._is_complete():
            self.expired = True
            self._abort()
