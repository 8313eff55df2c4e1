"""Settings of all tests: the disk cache is off, and one OpenMP thread.

A test may turn the cache on.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest

from tests.tiers import UNMATCHED_PATTERNS, slow, stale

os.environ["IOAWARE_CACHE_DIR"] = ""
os.environ.pop("GITHUB_STEP_SUMMARY", None)  # verbs append to it
os.environ["OMP_NUM_THREADS"] = "1"  # pytest's workers share the cores, so more threads cost time

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background: Ctrl-C is tested here
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.stash[UNMATCHED_PATTERNS] = stale(item.nodeid for item in items)
    left_out = slow(item.nodeid for item in items)
    for item in items:
        if item.nodeid in left_out:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Freeze the objects of all imports and tests.

    Garbage collections then skip them.
    """
    gc.freeze()
    gc.enable()
