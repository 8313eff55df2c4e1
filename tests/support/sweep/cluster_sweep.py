"""A sweep on a cluster, which prints each durable point's key.

Run as `python cluster_sweep.py STUDY STORE gpus|ADDRESS [SECONDS OF PATIENCE]`. With `gpus` it has two workers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ioaware.errors import IoawareError
from ioaware.sweep.cluster import dispatcher
from ioaware.sweep.cluster.connection import GPUS, open_cluster
from ioaware.sweep.points import Point
from ioaware.sweep.runner import run_study
from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study


def acknowledge(done: int, total: int, point: Point, status: str) -> None:
    print(point.key, flush=True)


def main(study: str, path: str, where: str, patience_s: float) -> None:
    dispatcher.HANG_MARGIN_S = 5.0
    workers = 2 if where == GPUS else None
    with (
        Store(path) as store,
        open_cluster(where, workers=workers, patience_s=patience_s, note=lambda line: print("note:", line)) as cluster,
    ):
        run_study(find_study(study), store, timeout_s=5.0, entry="targets:stub", progress=acknowledge, cluster=cluster)


if __name__ == "__main__":  # workers import this file
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        main(*sys.argv[1:4], float(sys.argv[4]) if len(sys.argv) > 4 else 60.0)
    except IoawareError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
