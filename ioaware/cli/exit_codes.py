"""Exit codes of the command line. Errors carry theirs in `ioaware.errors`; these are the others."""

from __future__ import annotations

from ioaware.result import BYTES_HOLD, Result

OK, FAILS, USAGE, INCONCLUSIVE, ENVIRONMENT, INTERNAL = 0, 1, 2, 3, 5, 70
INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 + the signal's number, as shells have it


def of_result(result: Result) -> int:
    """Return 1 when the output is wrong, 3 when the bytes are not reliable, else 0."""
    if result.check and not result.check.passed:
        return FAILS
    return OK if result.status in BYTES_HOLD else INCONCLUSIVE
