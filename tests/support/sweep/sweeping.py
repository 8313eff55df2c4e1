"""A sweep to be killed, which prints each durable point's key.

Run as `python sweeping.py STUDY STORE WORKERS`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ioaware.errors import IoawareError
from ioaware.sweep.points import Point
from ioaware.sweep.runner import run_study
from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study

sys.path.insert(0, str(Path(__file__).parent))


def acknowledge(done: int, total: int, point: Point, status: str) -> None:
    print(point.key, flush=True)


if __name__ == "__main__":
    try:
        with Store(sys.argv[2]) as store:
            run_study(find_study(sys.argv[1]), store, workers=int(sys.argv[3]), entry="targets:stub", progress=acknowledge)
    except IoawareError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
