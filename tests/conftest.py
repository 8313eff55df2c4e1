"""No test finds what another process kept on disk, and none keeps anything where a user would: tests of that say where."""

from __future__ import annotations

import gc
import os

import pytest

from tests.tiers import is_slow, stale

os.environ["IOAWARE_CACHE_DIR"] = ""
os.environ["OMP_NUM_THREADS"] = "1"  # workers of pytest share the cores; threads that wait for each other there only cost time

gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and (unmatched := stale(item.nodeid for item in items)):
        raise pytest.UsageError(f"tests/tiers.py names tests that do not exist: {', '.join(unmatched)}")
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What importing every library and test has made stays until the end: no garbage collection need look at it again."""
    gc.freeze()
    gc.enable()
