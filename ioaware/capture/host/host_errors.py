"""Say in one sentence why a run of the host function failed."""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.capture.data_reads.replay import NUMPY_REFUSED
from ioaware.errors import IoawareError, UsageError
from ioaware.symints.host_line import ReadsDataError
from ioaware.targets.loading import failing_line, remedy_of, what_raised

SYMBOLIC_NUMBERS = ("SymFloat", "SymInt", "SymBool")
"""Types of torch that its messages name where Python needs a plain number."""
DATA_DEPENDENT = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")
"""Exceptions with which torch refuses to read a fake tensor."""


def user_error(name: str, error: Exception) -> IoawareError:
    """Return an exception of the function `name` as one sentence with its line.

    The exception is its cause, whose traceback `-v` shows.
    """
    for cause in _causes(error):
        if isinstance(cause, IoawareError):
            return cause
    if any(type(cause).__name__ in DATA_DEPENDENT for cause in _causes(error)):
        reads = ReadsDataError(
            f"the host function reads a tensor's data{where(error)}, and a derivation has no data",
            "Trace it, or give what it reads as a parameter.",
        )
        reads.__cause__ = error
        return reads
    return raised(name, error)


def raised(name: str, error: BaseException) -> UsageError:
    """Return what the function `name` raised, as its own fault."""
    found = UsageError(what_raised(name, error), remedy_of(error))
    found.__cause__ = error
    return found


def needs_data(name: str, error: Exception) -> bool:
    """Return whether a run failed because data are missing.

    It read a tensor, or Python needed a plain number.
    """
    if isinstance(user_error(name, error), ReadsDataError):
        return True
    return any(text in str(error) for text in (*SYMBOLIC_NUMBERS, NUMPY_REFUSED))


def failure(error: Exception) -> tuple[type, str, str | None]:
    """Return what is equal for equal failures: type, message and line."""
    return type(error), str(error), failing_line(error)


def where(error: Exception) -> str:
    """Return ` at file.py:12`, the deepest line of the user's code; empty without one."""
    line = failing_line(error)
    return f" at {line}" if line else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those from which it was raised."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
