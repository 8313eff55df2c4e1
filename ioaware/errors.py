"""Define errors of the user or the machine, each with its exit code.

A message says what, where, why, and what to do next.
"""

from __future__ import annotations


class IoawareError(Exception):
    """One clear sentence, then what to do next.

    Every other exception is a bug of ioaware.
    """

    exit_code = 70

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n  {self.remedy}" if self.remedy else self.what


class UsageError(IoawareError):
    """The command or call names what does not exist or cannot work.

    It may be a case, parameter, value or file.
    """

    exit_code = 2


class NoKernelError(UsageError):
    """A target launches no Triton kernel."""


class InconclusiveError(IoawareError):
    """The evidence does not decide.

    The numbers are unstable, incomparable or physically impossible.
    """

    exit_code = 3


class MachineError(IoawareError):
    """This machine lacks what the verb needs: a GPU, counter permission, ncu."""

    exit_code = 5


class DataError(IoawareError):
    """A file or a tool's output cannot be trusted.

    It is corrupt, truncated, of another schema, or not to be trusted.
    """

    exit_code = 6


class WriteError(IoawareError):
    """An output cannot be written: the path, its permissions or the space left."""

    exit_code = 5
