"""No test finds what another process kept on disk, and none keeps anything where a user would: tests of that say where."""

from __future__ import annotations

import gc
import os

os.environ["IOAWARE_CACHE_DIR"] = ""
os.environ["OMP_NUM_THREADS"] = "1"  # workers of pytest share the cores; threads that wait for each other there only cost time

gc.disable()


def pytest_collection_finish() -> None:
    """What importing every library and test has made stays until the end: no garbage collection need look at it again."""
    gc.freeze()
    gc.enable()
