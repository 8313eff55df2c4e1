"""Simulate the points of a study before they are measured.

    python scripts/predict_study.py STUDY FILE [--machine H200]

FILE gets one JSON line per point, as `ioaware accuracy` reads predictions: the L2 is empty before each launch, as under a
profiler.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ioaware.machine import find_machine_or_file
from ioaware.result import Result
from ioaware.simulation.predictions import predict_point, write_predictions
from ioaware.sweep.study import find_study


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every point has a prediction, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="a study's name or TOML file")
    parser.add_argument("file", type=Path)
    parser.add_argument("--machine", default="H200", help="a preset or a machine file")
    given = parser.parse_args(arguments)
    machine = find_machine_or_file(given.machine)
    found = [predict_point(Result("measure", one.target, one.params), machine) for one in find_study(given.study).points]
    write_predictions(found, given.file)
    for one in found:
        print(one.target, dict(one.params), one.failed or [(launch.kernel, launch.hbm_read_bytes) for launch in one.launches])
    return int(any(one.failed for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
