"""Notice host code that works in another thread or process.

The operators of torch that run there are not seen. Kernels that another thread launches are counted, since launches are
intercepted in the whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ioaware._monkeypatch import Patches
from ioaware.targets.loading import is_library

UNSEEN = "no torch operator runs in another thread or process"
"""Begin of the note on host code that starts one."""
STARTS = ((threading.Thread, "start"), (subprocess.Popen, "__init__"), (os, "fork"))
OF_TORCH = f"{os.sep}torch{os.sep}"


@contextmanager
def starts_noted(note: Callable[[str], None]) -> Generator[None]:
    """Call `note` inside the block where host code starts a thread or a process.

    Those of torch's compiler do no work of the target.
    """

    def noting(plain: Callable[..., Any]) -> Callable[..., Any]:
        def start(*args: Any, **kwargs: Any) -> Any:
            if line := _line_of_host_code(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
                note(f"{UNSEEN}: host code starts one at {line}")
            return plain(*args, **kwargs)

        return start

    with Patches() as patches:
        for owner, name in STARTS:
            patches.set(owner, name, noting(getattr(owner, name)))
        yield


def _line_of_host_code(frame: FrameType | None) -> str:
    """Return the line of the user's code that is running.

    Empty where torch is below it.
    """
    while frame is not None and is_library(frame.f_code.co_filename):
        if OF_TORCH in frame.f_code.co_filename:
            return ""
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""
