"""Run Python commands in forks of a process that has imported torch.

Why: their imports take longer than most trials of a call. Each command still has a process of its own.

    python -P -m ioaware.gate.setup.warm_python     # a command a line of stdin, its exit code a line of stdout
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

POLL_S = 0.01
WARM = tuple(
    f"ioaware.{module}" for module in ("derivation.derive", "gate.traffic_fixture", "targets.with_backward", "tracing.trace")
)
"""What trials import."""


class WarmPython:
    """A process that forks for each command; a fresh Python where it cannot."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> WarmPython:
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
        self._folder.cleanup()

    def run(self, arguments: Sequence[str], base: Path, limit_s: float) -> subprocess.CompletedProcess[bytes]:
        """Return how `python -m MODULE ARGUMENT...` ended, with `base` on its path.

        `arguments` begin with the module. Raises `TimeoutExpired`, with what it printed.
        """
        out, errors = (Path(self._folder.name) / name for name in ("out", "errors"))
        job = {"arguments": arguments, "base": str(base), "limit_s": limit_s, "out": str(out), "errors": str(errors)}
        answer = self._ask(json.dumps(job).encode() + b"\n")
        if not answer:
            return run_python(self._root, arguments, base, limit_s)
        code: int | None = json.loads(answer)
        if code is None:
            raise subprocess.TimeoutExpired("python", limit_s, out.read_bytes(), errors.read_bytes())
        return subprocess.CompletedProcess("python", code, out.read_bytes(), errors.read_bytes())

    def _ask(self, line: bytes) -> bytes:
        """Return the server's answer, empty where it has ended."""
        if self._server is None:
            command, pipe = [sys.executable, "-P", "-m", __name__], subprocess.PIPE
            self._server = subprocess.Popen(command, cwd=self._root, env=environment(), stdin=pipe, stdout=pipe)  # noqa: S603
        question, answer = self._server.stdin, self._server.stdout
        with suppress(OSError):
            if question and answer:
                question.write(line)
                question.flush()
                return answer.readline()
        return b""


def run_python(root: Path, arguments: Sequence[str], base: Path, limit_s: float) -> subprocess.CompletedProcess[bytes]:
    """Return how a fresh Python ended, as `WarmPython.run` does."""
    return subprocess.run(  # noqa: S603 - this Python and this package
        [sys.executable, "-P", "-m", *arguments],
        cwd=root,
        env=environment(base),
        capture_output=True,
        timeout=limit_s,
        check=False,
    )


def environment(base: Path | None = None) -> dict[str, str]:  # pragma: no mutate block
    """Return the environment of a Python with this package on its path.

    `base` is a further directory of it.
    """
    own = Path(__file__).resolve().parents[3]
    paths = [str(own), str(base or ""), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def serve() -> None:  # pragma: no mutate block
    """Import what trials need, then fork for each command until stdin ends."""
    for module in WARM:
        importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin.buffer:
        code = _forked(json.loads(line))
        os.write(1, json.dumps(code).encode() + b"\n")


def _forked(job: Mapping[str, Any]) -> int | None:  # pragma: no mutate block
    """Run a command in a fork; return its exit code, None where it is late."""
    end = time.monotonic() + job["limit_s"]
    child = os.fork()
    if not child:
        _run(job)
    late, status = False, (0, 0)
    while not status[0]:
        status = os.waitpid(child, 0 if late else os.WNOHANG)
        if not status[0]:
            time.sleep(POLL_S)
            late = time.monotonic() > end
        if late or status[0]:  # what the command started ends with it
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
    return None if late else os.waitstatus_to_exitcode(status[1])


def _run(job: Mapping[str, Any]) -> NoReturn:  # pragma: no mutate block
    code = 1
    try:
        os.setsid()
        for number, path in enumerate((os.devnull, job["out"], job["errors"])):
            os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ.update(environment(Path(job["base"])))
        sys.path.insert(1, job["base"])
        module, *sys.argv[1:] = job["arguments"]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
