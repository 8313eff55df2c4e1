"""Run the verbs that call a user's code in a child process.

The process has a time and a memory limit.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from ioaware.cli.options import settings
from ioaware.cli.signals import Terminated
from ioaware.errors import UsageError

TIMEOUT_S = 3600.0
MAX_TIMEOUT_S, MAX_MEMORY_GIB = 1e9, 2.0**30
"""Above every machine; larger values are typing errors."""

timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True, max=MAX_TIMEOUT_S), metavar="SECONDS",
    default=TIMEOUT_S, show_default=True, help="Stop TARGET after this time.",
)  # fmt: skip
memory_option = click.option(
    "--memory", "memory_gib", type=click.FloatRange(min=0, min_open=True, max=MAX_MEMORY_GIB), metavar="GIB",
    help="Stop TARGET when it uses more memory.  [default: 80 % of this machine's]",
)  # fmt: skip


def isolated(command: Callable[..., Any]) -> Callable[..., Any]:
    """Run a verb of TARGET in a child process; add `--timeout` and `--memory`.

    Without a target it runs in this process.

    Called from Python, or after torch was loaded (its threads would not survive a fork), the verb runs in this process.
    """

    @functools.wraps(command)
    def run(*, target: str | None, timeout_s: float, memory_gib: float | None, **options: Any) -> Any:
        from ioaware.measurement.forked_call import Limits, continue_in_child, default_memory_bytes

        named = target or " and ".join(options.get("compare") or ())
        if not named:
            return command(target=target, **options)
        if settings().fork and "torch" not in sys.modules and hasattr(os, "pidfd_open"):
            sys.stdout.flush()
            memory_bytes = default_memory_bytes() if memory_gib is None else int(memory_gib * 2**30)
            code = continue_in_child(named, Limits(timeout_s, memory_bytes))
            if code is not None:
                return code
        try:
            return command(target=target, **options)
        except (Exception, KeyboardInterrupt, SystemExit, Terminated):
            raise
        except BaseException as error:  # of the user's, made to pass every handler
            from ioaware.targets.loading import what_raised

            raise UsageError(what_raised(named, error), "The function must run by itself first.") from error

    return timeout_option(memory_option(run))
