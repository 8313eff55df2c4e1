"""Run one program in its own session.

Its output is bounded, it has a deadline, and no process is left behind.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, cast

TAIL_BYTES = 16 * 2**10
"""Bytes kept of each stream, from its end.

Memory stays bounded whatever a worker prints.
"""

GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended.

    `returncode` is negative for a signal; `timed_out`: this module ended it.
    """

    returncode: int
    timed_out: bool
    stdout: str
    stderr: str

    @property
    def how(self) -> str:
        """The end in words."""
        if self.timed_out:
            return "did not end within its time and was killed"
        if self.returncode < 0:
            return f"was killed by {_signal_name(-self.returncode)}"
        return f"ended with exit code {self.returncode}"


def run_process(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    paused: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Finished:
    """Run `argv` to its end or for `timeout_s` seconds, never through a shell.

    The time while `paused()` does not count.

    The program leads its own session; its whole process group is killed afterwards. Raises `OSError` if it cannot be
    started.
    """
    with subprocess.Popen(  # noqa: S603 - an argv list; the program is the caller's choice
        list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
    ) as process:
        streams = (cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr))
        tails = {stream: bytearray() for stream in streams}
        try:
            timed_out = not _wait(process, tails, timeout_s, paused, clock)
        finally:
            _end_group(process)
            _drain(tails)
        return Finished(process.returncode, timed_out, *(tail.decode("utf-8", "replace") for tail in tails.values()))


def _wait(
    process: subprocess.Popen[bytes],
    tails: Mapping[IO[bytes], bytearray],
    timeout_s: float,
    paused: Callable[[], bool],
    clock: Callable[[], float],
) -> bool:
    """Read output until the program ends; return False once the time is up.

    It does not wait for the pipes: a child that outlives the program may hold them open.
    """
    with selectors.DefaultSelector() as selector:
        for stream in tails:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        left, before = timeout_s, clock()
        while process.poll() is None:
            now = clock()
            left -= 0.0 if paused() else now - before
            before = now
            if left <= 0:
                return False
            for key, _ in selector.select(0.02) if selector.get_map() else ():
                stream = next(item for item in tails if item is key.fileobj)
                if not _read(stream, tails[stream]):
                    selector.unregister(stream)
            if not selector.get_map():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
    return True


def _read(stream: IO[bytes], tail: bytearray) -> bool:
    """Append the available output and keep only its end.

    Return False when the stream is closed.
    """
    try:
        chunk = os.read(stream.fileno(), 2**16)
    except BlockingIOError:
        return True
    tail += chunk
    del tail[:-TAIL_BYTES]
    return bool(chunk)


def _drain(tails: Mapping[IO[bytes], bytearray]) -> None:
    """Read what is left in the pipes, without blocking."""
    for stream, tail in tails.items():
        for _ in range(16):  # a pipe holds 64 KiB unless enlarged; a bound in any case
            try:
                chunk = os.read(stream.fileno(), 2**16)
            except BlockingIOError:
                break
            if not chunk:
                break
            tail += chunk
            del tail[:-TAIL_BYTES]


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, then SIGKILL, to the program's process group.

    The group may outlive its leader.
    """
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
