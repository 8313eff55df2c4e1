"""No test finds what another process kept on disk, and none keeps anything where a user would: tests of that say where."""

from __future__ import annotations

import os

os.environ["IOAWARE_CACHE_DIR"] = ""
