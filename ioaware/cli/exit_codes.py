"""Define exit codes of the command line.

Errors carry theirs in `ioaware.errors`; these are the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from ioaware.result import BYTES_HOLD, Result

OK, FAILS, USAGE, INCONCLUSIVE, BASELINE, ENVIRONMENT, CORRUPT, INTERNAL = 0, 1, 2, 3, 4, 5, 6, 70
HUNG_UP, INTERRUPTED, BROKEN_PIPE, TERMINATED = 129, 130, 141, 143  # 128 + the signal's number, as shells have it

MEANINGS: Mapping[int, str] = {
    OK: "ok",
    FAILS: "a regression: bytes grow, a claim fails, or an output is wrong",
    USAGE: "usage: a name, value or path that cannot work",
    INCONCLUSIVE: "inconclusive: the numbers do not decide",
    BASELINE: "what a gate compares with is missing or stale",
    ENVIRONMENT: "environment: this machine lacks something, or cannot write the output",
    CORRUPT: "data corrupt or not to be trusted",
    INTERNAL: "a bug of ioaware",
    HUNG_UP: "ended by SIGHUP",
    INTERRUPTED: "interrupted by Ctrl-C",
    BROKEN_PIPE: "the reader of the output closed it",
    TERMINATED: "ended by SIGTERM",
}
"""Every exit code, for `ioaware --help`."""


def of_result(result: Result) -> int:
    """Return 1 when the output is wrong, 3 when the bytes are not reliable, else 0."""
    if result.check and not result.check.passed:
        return FAILS
    return OK if result.status in BYTES_HOLD else INCONCLUSIVE
