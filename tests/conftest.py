"""Settings of all tests: the disk cache is off, and one OpenMP thread.

A test may turn the cache on.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
from contextlib import suppress

import pytest

from tests.tiers import UNMATCHED_PATTERNS, exhaustive, slow, stale

os.environ["IOAWARE_CACHE_DIR"] = ""
os.environ.pop("GITHUB_STEP_SUMMARY", None)  # verbs append to it
os.environ["OMP_NUM_THREADS"] = "1"  # pytest's workers share the cores, so more threads cost time

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background: Ctrl-C is tested here
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()


def pytest_collection(session: pytest.Session) -> None:
    """Let the second worker import the test modules from the last to the first.

    Each of two workers then finds the bytecode of half of them, which the other wrote.
    """
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1" and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        for path in sorted((session.config.rootpath / "tests").rglob("test_*.py"), reverse=True):
            with suppress(Exception, pytest.skip.Exception):  # the collection shows it
                importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.stash[UNMATCHED_PATTERNS] = stale(item.nodeid for item in items)
    left_out = slow(item.nodeid for item in items)
    for item in items:
        if item.nodeid in left_out:
            item.add_marker(pytest.mark.slow)
    left_out = exhaustive(item.nodeid for item in items if item.get_closest_marker("slow"))
    for item in items:
        if item.nodeid in left_out:
            item.add_marker(pytest.mark.exhaustive)


def pytest_collection_finish() -> None:
    """Freeze the objects of all imports and tests.

    Garbage collections then skip them.
    """
    gc.freeze()
    gc.enable()
