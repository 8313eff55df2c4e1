"""Time sweeps on a cluster of this machine against sweeps without one.

The two are interleaved.

    python scripts/bench_cluster.py [--points 10000] [--traces 60] [--measures 0] [--waits 0] [--modes MODE ...]
        [--rounds 3] [--keep DIR]

`--measures` counts points to measure, on hosts with GPUs: without a cluster on the first GPU, then on clusters of one and two.
Their requested bytes must be equal in every mode. `--waits` counts points that only wait, about as long as measuring one
takes: what handing out points costs, on any number of workers and without GPUs. `--modes` names the modes of both. `--keep`
exports the records of each mode's last run there.

Each run is a process of its own with a new store. `open` is the time until the workers have said who they are, `run` that of
the points. `CPU` is the CPU time of all processes for the points, which other load lengthens least; half of it is the least
time on two cores. The output is Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

PREDICT = """[[grid]]
sources = ["predict"]
targets = ["flash2"]
params = {{ seq_len = {sizes} }}
"""
TRACE = """[[grid]]
sources = ["trace"]
targets = ["flash2"]
params = {{ seq_len = {sizes}, heads = 4, head_dim = 64 }}
"""
MEASURE = """[[grid]]
sources = ["measure"]
targets = ["flash2"]
params = {{ seq_len = {sizes}, heads = 8, head_dim = 64, dtype = "float16", block_m = 64, block_n = 64 }}
"""
WAIT = """[[grid]]
sources = ["trace"]
targets = ["flash2"]
params = {{ seq_len = {sizes} }}
"""
WAIT_S = 15.0
MODES = ("no cluster, 1 worker", "cluster of 1", "cluster of 2", "cluster of 4")


def wait(job: dict[str, Any]) -> str:
    """Stand in for the sweep's entry: a point that waits and has no bytes."""
    from ioaware.result import Result, Traffic
    from ioaware.result_file import encode

    time.sleep(WAIT_S)
    return encode(Result(job["source"], job["target"], job["params"], requested=Traffic(0, 0)))


def run(study: str, mode: str, store: str) -> None:
    """Run one sweep in this process and print its times in seconds as JSON."""
    from ioaware.sweep.cluster.connection import open_cluster
    from ioaware.sweep.pool import ENTRY
    from ioaware.sweep.runner import run_study
    from ioaware.sweep.store import Store
    from ioaware.sweep.study import find_study

    found = find_study(study)
    entry = "bench_cluster:wait" if Path(study).stem == "waits" else ENTRY
    workers = int(mode.rpartition(" ")[2]) if mode in MODES[1:] else None
    began = time.monotonic()
    with Store(store) as kept, open_cluster("gpus", workers=workers) if workers else contextlib.nullcontext() as cluster:
        opened, before_s = time.monotonic(), _cpu_s(os.getpid())
        outcome = run_study(found, kept, workers=1, cluster=cluster, entry=entry)
        ended, after_s = time.monotonic(), _cpu_s(os.getpid())
    if outcome.statuses != {"ok": len(found.points)}:
        raise SystemExit(f"{mode}: {outcome.statuses} of {len(found.points)} points")
    print(json.dumps({"open": opened - began, "run": ended - opened, "cpu": after_s - before_s}))


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its descendants, ended ones included."""
    process = Path("/proc") / str(pid)
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        children = [int(child) for task in (process / "task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return 0.0
    ticks = sum(map(int, fields[11:15]))  # user, system, and both of ended children
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(_cpu_s, children))


def requested(records: Path) -> dict[str, int]:
    """Return the requested bytes read at each point of an export."""
    found: dict[str, int] = {}
    for line in records.read_text().splitlines():
        record = json.loads(line)
        found[json.dumps(record["params"], sort_keys=True)] = record["requested"]["read_bytes"]
    return found


def timed(study: Path, mode: str, folder: Path, keep: Path) -> dict[str, float]:
    """Return the times of one sweep in a new process; export its records to `keep`."""
    store = folder / "store.db"
    command = [sys.executable, __file__, "--one", str(study), mode, str(store)]
    modules = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": modules}  # for the points that wait, in every worker
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
    keep.unlink(missing_ok=True)
    export = [sys.executable, "-m", "ioaware", "export", "--store", str(store), "-o", str(keep)]
    subprocess.run(export, capture_output=True, check=True)  # noqa: S603
    for path in folder.glob("store.db*"):
        path.unlink()
    return json.loads(done.stdout)


def report(title: str, text: str, modes: tuple[str, ...], rounds: int, keep: Path | None, *, measured: bool = False) -> None:
    """Print a table of the modes' times, every mode once a round."""
    seen: dict[str, dict[str, int]] = {}
    times: dict[str, list[dict[str, float]]] = {mode: [] for mode in modes}
    with tempfile.TemporaryDirectory() as name:
        study = Path(name) / f"{title.split()[-1]}.toml"
        study.write_text(text)
        for _ in range(rounds):
            for mode in modes:
                records = (keep or Path(name)) / f"{title} {mode}.jsonl".replace(" ", "-").replace(",", "")
                times[mode].append(timed(study, mode, Path(name), records))
                if measured:
                    seen[mode] = requested(records)
                print(f"{title}: {mode}: {times[mode][-1]}", file=sys.stderr)
    if any(points != seen[modes[0]] for points in seen.values()):
        raise SystemExit(f"{title}: requested bytes differ between modes: {seen}")
    print(f"| {title} | open, s | run, s | fastest | median | CPU, s |\n| --- | --- | --- | --- | --- | --- |")
    for mode, found in times.items():
        runs = [one["run"] for one in found]
        opens = ", ".join(f"{one['open']:.1f}" for one in found)
        cpus = ", ".join(f"{one['cpu']:.1f}" for one in found)
        each = ", ".join(f"{one:.1f}" for one in runs)
        print(f"| {mode} | {opens} | {each} | {min(runs):.1f} | {median(runs):.1f} | {cpus} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, metavar=("STUDY", "MODE", "STORE"))
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--traces", type=int, default=60)
    parser.add_argument("--measures", type=int, default=0)
    parser.add_argument("--waits", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES[:3])
    options = parser.parse_args()
    if options.one:
        run(*options.one)
        return
    print(f"load before: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores", file=sys.stderr)
    predict = PREDICT.format(sizes=list(range(16, 16 + options.points)))
    trace = TRACE.format(sizes=list(range(256, 256 + options.traces)))
    if options.points:
        report(f"{options.points} predictions", predict, (MODES[0], MODES[2]), options.rounds, options.keep)
    if options.traces:
        report(f"{options.traces} traces", trace, MODES[:2], options.rounds, options.keep)
    if options.waits:
        waiting = WAIT.format(sizes=list(range(1, 1 + options.waits)))
        report(f"{options.waits} waits", waiting, tuple(options.modes), options.rounds, options.keep)
    if options.measures:
        measure = MEASURE.format(sizes=[2048 + 16 * n for n in range(options.measures)])  # all take equally long
        report(
            f"{options.measures} measured points", measure, tuple(options.modes), options.rounds, options.keep, measured=True
        )


if __name__ == "__main__":
    main()
