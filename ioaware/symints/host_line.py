"""Find the line of host code that is behind a guard or a read of data."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ioaware.errors import UsageError
from ioaware.targets.loading import is_library

SYMINT_FILES = (
    *("symints/symbols.py", "symints/symint_methods.py", "symints/host_line.py", "symints/number_types.py"),
    *("data_reads/interception.py", "data_reads/replay.py", "capture/symbolic_builtins.py", "capture/real_types.py"),
    "torch/__init__.py",
    "fx/experimental/sym_node.py",
    "symbolic_shapes.py",
    "recording.py",
)
"""Files that implement `SymInt` and data reads.

They are the frames between host code and its guard.
"""
WRITERS = ("<string>", *(f"/{name}.py" for name in ("dataclasses", "reprlib", "pprint", "string", "collections/__init__")))
"""Files of Python whose functions write text for host code.

A dataclass has its own in a string.
"""

CALLERS = ("capture/host/host_runner.py",)
"""Files whose frames call the host function: those above them are no host code."""
_target: ContextVar[str] = ContextVar("target", default="an unknown line")


@contextmanager
def host_code_of(target: str) -> Generator[None]:
    """Name the target whose host code runs inside the block.

    It stands for guards that no line of host code is behind. Such are those of a function that torch.compile made: its caller
    is its own line.
    """
    token = _target.set(Path(target).name)
    try:
        yield
    finally:
        _target.reset(token)


class ReadsDataError(UsageError):
    """The host function reads the contents of a tensor."""


def reads_data_error() -> ReadsDataError:
    """Return the error of a read without data, with the line of host code."""
    return ReadsDataError(
        f"the host function reads a tensor's data at {user_line()[0]}, and a derivation has no data",
        "Trace it, or give what it reads as a parameter.",
    )


def user_line(transparent: tuple[str, ...] = ()) -> tuple[str, bool]:
    """Return `file.py:12`, the deepest running line of user code.

    It is `file.py:function`, the target, where no such line runs. The second value is whether torch is below it.

    Frames of the files in `transparent` do not count as torch's.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    inside_torch = False
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_library(path):
            return f"{Path(path).name}:{frame.f_lineno}", inside_torch
        if path.endswith(CALLERS):
            break
        inside_torch |= not path.endswith((*SYMINT_FILES, *transparent))
        frame = frame.f_back
    return _target.get(), inside_torch
