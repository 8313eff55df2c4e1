"""One of several writers, which prints its number of points.

Run as `python writing.py STORE WRITER SECONDS`.
"""

from __future__ import annotations

import sys
import time

from ioaware.result import Result
from ioaware.sweep.points import make_point
from ioaware.sweep.store import Store

if __name__ == "__main__":
    path, writer, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    saved = 0
    end = time.monotonic() + seconds
    with Store(path) as store:
        while time.monotonic() < end:
            saved += 1
            point = make_point("predict", "flash2", {"heads": writer + 1, "seq_len": saved})
            store.add(point, Result("predict", "flash2", point.params))
    print(saved)
