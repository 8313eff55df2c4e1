"""Count the bytes of a call in steady state, over many calls on rotating buffers.

    PYTHONPATH=. python scripts/steady_state.py ioaware/studies/h200-steady.toml --store FILE

A single launch leaves up to 30 MB of its writes in an H200's L2, so its HBM writes are counted short. Here each point gets
several sets of inputs and outputs, more than the L2 holds together. The sets are used in turn: first to fill the L2 with lines
that earlier calls wrote, then in one profiled range of many calls (application-range replay: ncu runs this program once for
each group of counters). What is written back late in the range replaces what was written back early. Nothing is flushed. The
counters of a range are of all its kernels, so torch's own are counted, too. Sets and calls are chosen before, unprofiled, and
are the same in every run of the program.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ioaware.cli.exit_codes import INCONCLUSIVE
from ioaware.environment import gpu_environment, scrub, software_environment
from ioaware.errors import DataError, IoawareError
from ioaware.measurement.assemble_result import failure
from ioaware.measurement.counters.kernel_attribution import HBM_READS, HBM_WRITES, REQUESTED_READS, REQUESTED_WRITES, TIME
from ioaware.measurement.counters.ncu import Ncu, find_ncu
from ioaware.measurement.counters.ncu_csv import Metric, read_ranges
from ioaware.measurement.gpu_lock import gpu_lease
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.measurement.subprocesses import run_process
from ioaware.result import Result, Traffic
from ioaware.sweep.gpu_name import gpu_name
from ioaware.sweep.points import Point
from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study
from ioaware.targets.output_check import worst_error

if TYPE_CHECKING:
    from ioaware.case import Work
    from ioaware.measurement.cuda_device import Cuda

SEED = 0
LIMIT_S = 300.0
ROTATION = 4
"""Sets of buffers hold together at least this many times the L2."""
MAX_SETS = 256
RANGE_BYTES = 2_000_000_000
"""Least bytes of a range's inputs and outputs.

Fewer calls are made where they would take longer than `RANGE_S`.
"""
RANGE_S = 0.3
MAX_CALLS = 2048
CHECKED_ELEMENTS = 2**22
"""Outputs with more elements are not checked.

Their float64 reference would take longer than the measurement.
"""
TAIL_CHARACTERS = 1500
METRICS = (
    *(Metric(name, "byte") for name in (REQUESTED_READS, REQUESTED_WRITES, HBM_READS, HBM_WRITES)),
    Metric(TIME, "time"),
)
NOTES = (
    "steady state: mean over the calls of one profiled range, on rotating buffers, nothing flushed",
    "counters of all kernels of the call together, not timed",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Sets of buffers and calls of a point's range; `error` says why there is none."""

    sets: int = 0
    calls: int = 0
    set_bytes: int = 0
    relative_error: float | None = None
    tolerance: float | None = None
    error: str = ""


def build(point: Mapping[str, Any]) -> Work:
    """Build the work of a point on seeded inputs."""
    import torch

    from ioaware.targets.target import load_target

    target = load_target(point["target"])
    cast(Any, torch).manual_seed(SEED)
    return target.build(device="cuda", **target.resolve(point["params"]))


def plan(point: Mapping[str, Any]) -> Plan:
    """Run a point, check its output, and choose how many sets and calls its range has."""
    import torch

    cuda: Any = torch.cuda
    before = cuda.memory_allocated()
    work = build(point)
    output = work.run()
    cuda.synchronize()
    set_bytes = max(1, cuda.memory_allocated() - before)
    error = None
    if work.reference is not None and isinstance(output, torch.Tensor) and output.numel() <= CHECKED_ELEMENTS:
        error = worst_error([output], work.reference())
    start = time.perf_counter()
    work.run()
    cuda.synchronize()
    call_s = time.perf_counter() - start
    l2_bytes = cuda.get_device_properties(0).L2_cache_size
    sets = max(2, min(MAX_SETS, math.ceil(ROTATION * l2_bytes / set_bytes)))
    wanted = max(sets, math.ceil(RANGE_BYTES / set_bytes))
    calls = max(2, min(MAX_CALLS, wanted, int(RANGE_S / call_s)))
    return Plan(sets, calls, set_bytes, error, work.tolerance)


def planned(points: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Compile each point's kernels and write its plan."""
    import torch

    for point in points:
        try:
            found = plan(point)
        except Exception as error:  # one point that does not run is one failed record
            found = Plan(error=f"{type(error).__name__}: {error}"[:TAIL_CHARACTERS])
        _write_plan(found, point, folder)
        torch.cuda.empty_cache()


def _write_plan(found: Plan, point: Mapping[str, Any], folder: Path) -> None:
    (folder / f"{point['number']}.plan.json").write_text(json.dumps(asdict(found)))


def counted(points: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Run each planned point's calls, the last ones in a range of the profiler."""
    from ioaware.measurement.cuda_device import Cuda

    gpu = open_gpu(load_nvml())
    importlib.import_module("triton")  # seconds that need no GPU, so before the lease
    with gpu_lease(gpu.limits.uuid, timeout_s=LIMIT_S):
        device = Cuda()
        for point in points:
            chosen = Plan(**json.loads((folder / f"{point['number']}.plan.json").read_text()))
            if chosen.error:
                continue
            try:
                _run_range(point, chosen, device)
            except Exception as error:
                _write_plan(Plan(error=f"{type(error).__name__}: {error}"[:TAIL_CHARACTERS]), point, folder)
            environment = gpu_environment(gpu.limits) | device.describe()
            (folder / f"{point['number']}.environment.json").write_text(json.dumps(environment))
            device.empty_cache()


def _run_range(point: Mapping[str, Any], chosen: Plan, device: Cuda) -> None:
    """Call a point's work on its sets in turn: once round, then in the range."""
    works = [build(point) for _ in range(chosen.sets)]
    outputs: list[object] = [work.run() for work in works]

    def calls() -> None:
        device.push_range("ioaware")
        for number in range(chosen.calls):
            outputs[number % chosen.sets] = works[number % chosen.sets].run()
        device.pop_range()

    device.profile(calls)


def command(ncu: Ncu, log: Path, program: Sequence[str], *, nvtx: bool = False) -> list[str]:
    """Return the argv that counts over each range between cudaProfilerStart and -Stop.

    `nvtx` takes the NVTX ranges inside them instead.
    """
    return [
        str(ncu.path),
        "--csv",
        *("--page", "raw"),
        *("--print-units", "base"),
        *("--metrics", ",".join(metric.name for metric in METRICS)),
        *("--clock-control", "none"),
        *("--cache-control", "none"),
        *("--replay-mode", "app-range"),
        *(("--nvtx", "--nvtx-include", "ioaware/") if nvtx else ()),
        *("--log-file", str(log)),
        *program,
    ]


def records(
    points: Sequence[Point], plans: Sequence[Plan], environments: Sequence[Mapping[str, Any]], text: str
) -> Iterator[Result]:
    """Yield a record a point, from its plan and the counters of its range."""
    table = read_ranges(text, METRICS)
    ran = [number for number, one in enumerate(plans) if not one.error]
    if len(table) != len(ran):
        raise DataError(f"ncu counted {len(table)} ranges where {len(ran)} ran")
    rows = dict(zip(ran, table, strict=True))
    for number, (point, one, environment) in enumerate(zip(points, plans, environments, strict=True)):
        if number in rows:
            yield _record(point, one, rows[number], environment)
        else:
            yield failure(point.target, point.params, one.error, environment)


def _record(point: Point, chosen: Plan, row: Mapping[str, int], environment: Mapping[str, Any]) -> Result:
    """Return the bytes of one call, and what was counted over all in the telemetry."""

    def per_call(reads: str, writes: str) -> Traffic:
        return Traffic(round(row[reads] / chosen.calls), round(row[writes] / chosen.calls))

    wrong = chosen.relative_error is not None and chosen.tolerance is not None and chosen.relative_error > chosen.tolerance
    if wrong:
        return failure(point.target, point.params, f"the output is wrong by {chosen.relative_error:.3g}", environment)
    return Result(
        "measure",
        point.target,
        point.params,
        requested=per_call(REQUESTED_READS, REQUESTED_WRITES),
        hbm=per_call(HBM_READS, HBM_WRITES),
        exact=False,
        notes=NOTES,
        telemetry={"steady_state": {**asdict(chosen), "counted": dict(row)}},
        environment=environment,
    )


def measure(
    points: Sequence[Point], ncu: Ncu, versions: Mapping[str, Any], log: Path, processes: int, *, nvtx: bool
) -> list[Result]:
    """Plan some points in parallel, then count them in one profiled program.

    `log` keeps ncu's table.
    """
    with tempfile.TemporaryDirectory(prefix="ioaware-") as name:
        folder = Path(name)
        jobs = [{**point.to_job(), "number": number} for number, point in enumerate(points)]
        shares = [jobs[start::processes] for start in range(min(processes, len(jobs)))]
        programs = [program("planned", share, folder) for share in shares]
        with ThreadPoolExecutor(processes) as pool:
            ends = list(pool.map(partial(run_process, timeout_s=LIMIT_S), programs))
        missing = Plan(error=scrub(f"no plan: {[end.stderr[-TAIL_CHARACTERS:] for end in ends if end.returncode]}"))
        runnable = [job for job in jobs if not _read_plan(job, folder, missing).error]
        finished = run_process(command(ncu, log, program("counted", runnable, folder), nvtx=nvtx), timeout_s=LIMIT_S)
        plans = [_read_plan(job, folder, missing) for job in jobs]  # again: a point may have failed in the profiled program
        try:
            environments: list[dict[str, Any]] = [
                {**({} if one.error else json.loads((folder / f"{job['number']}.environment.json").read_text())), **versions}
                for job, one in zip(jobs, plans, strict=True)
            ]
            return list(records(points, plans, environments, log.read_text()))
        except (OSError, ValueError, IoawareError) as error:
            why = scrub(f"{error}\nthe profiled process {finished.how}\n{finished.stderr[-TAIL_CHARACTERS:]}")
            return [failure(point.target, point.params, why, versions) for point in points]


def _read_plan(job: Mapping[str, Any], folder: Path, missing: Plan) -> Plan:
    path = folder / f"{job['number']}.plan.json"
    return Plan(**json.loads(path.read_text())) if path.exists() else missing


def program(part: str, jobs: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """Return the argv of a part of this script, on some points."""
    path = folder / f"{part}-{jobs[0]['number'] if jobs else 'none'}.json"
    path.write_text(json.dumps(jobs))
    return [sys.executable, __file__, "--part", part, str(path)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every point was counted, 3 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="a study's name or TOML file; of a part, its points")
    parser.add_argument("--store", type=Path, help="where the points are kept; points known there are not counted again")
    parser.add_argument("--processes", type=int, default=6, help="how many plan at once")
    parser.add_argument("--at-once", type=int, default=24, help="points of one profiled program")
    parser.add_argument(
        "--nvtx", action="store_true", help="ranges by NVTX, where ncu takes none by the profiler's start and stop"
    )
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.part:
        jobs = json.loads(Path(given.study).read_bytes())
        PARTS[given.part](jobs, Path(given.study).parent)
        return 0
    if given.store is None:
        parser.error("--store is missing")
    ncu, machine = find_ncu(), gpu_name()
    versions = {**software_environment(), "ncu": ncu.version_text}
    bad = 0
    with Store(given.store) as store:
        points = [point for point in find_study(given.study).points if store.status(point, machine=machine) in (None, "failed")]
        for start in range(0, len(points), given.at_once):
            share = points[start : start + given.at_once]
            log = given.store.with_suffix(f".{start}.csv")
            results = measure(share, ncu, versions, log, given.processes, nvtx=given.nvtx)
            for point, result in zip(share, results, strict=True):
                store.add(point, result, machine=machine)
                bad += result.status != "ok"
                print(f"{point.label}: {result.status}", *result.notes[: result.status != "ok"], file=sys.stderr)
    return INCONCLUSIVE if bad else 0


PARTS = {"planned": planned, "counted": counted}

if __name__ == "__main__":
    raise SystemExit(main())
