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
from ioaware.measurement.counters.kernel_attribution import HBM_READS, HBM_WRITES, REQUESTED_READS, REQUESTED_WRITES
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
from ioaware.targets.output_check import tensors, worst_error

if TYPE_CHECKING:
    from ioaware.case import Work
    from ioaware.measurement.cuda_device import Cuda

SEED = 0
LIMIT_S = 300.0
SHORTEST_S = 10.0
"""A program of less time would count nothing."""
ROTATION = 4
"""Sets of buffers hold together at least this many times the L2."""
MAX_SETS = 256
RANGE_BYTES = 1_500_000_000
"""Least bytes of a range's inputs and outputs.

Fewer calls are made where they would take longer than `RANGE_S`.
"""
RANGE_S = 0.15
TIMED_CALLS = 5
MAX_CALLS = 2048
CHECKED_ELEMENTS = 2**22
"""Outputs with more elements are not checked.

Their float64 reference would take longer than the measurement.
"""
TAIL_CHARACTERS = 1500
METRICS = tuple(Metric(name, "byte") for name in (REQUESTED_READS, REQUESTED_WRITES, HBM_READS, HBM_WRITES))
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
    found = tensors(output)
    if work.reference is not None and 0 < sum(one.numel() for one in found) <= CHECKED_ELEMENTS:
        error = worst_error(found, work.reference())
    call_s = min(_call_seconds(work, cuda) for _ in range(TIMED_CALLS))
    l2_bytes = cuda.get_device_properties(0).L2_cache_size
    sets = max(2, min(MAX_SETS, math.ceil(ROTATION * l2_bytes / set_bytes)))
    wanted = max(sets, math.ceil(RANGE_BYTES / set_bytes))
    calls = max(2, min(MAX_CALLS, wanted, int(RANGE_S / call_s)))
    return Plan(sets, calls, set_bytes, error, work.tolerance)


def _call_seconds(work: Work, cuda: Any) -> float:
    start = time.perf_counter()
    work.run()
    cuda.synchronize()
    return time.perf_counter() - start


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


@dataclass(frozen=True, slots=True)
class Session:
    """Hold the folder of the plans, and what all profiled programs share."""

    folder: Path
    ncu: Ncu
    versions: Mapping[str, Any]
    limit_s: float
    end_s: float
    """Clock at which the last program ends."""

    @property
    def left_s(self) -> float:
        """Seconds that the next program may take."""
        return min(self.limit_s, self.end_s - time.monotonic())

    def make_plans(self, jobs: Sequence[Mapping[str, Any]], processes: int) -> None:
        """Plan all points, several processes at once."""
        shares = [jobs[start::processes] for start in range(min(processes, len(jobs)))]
        programs = [program("planned", share, self.folder) for share in shares]
        with ThreadPoolExecutor(processes) as pool:
            for end in pool.map(partial(run_process, timeout_s=self.left_s), programs):
                print(end.stderr[-TAIL_CHARACTERS:] if end.returncode else "", end="", file=sys.stderr)

    def plan_of(self, job: Mapping[str, Any]) -> Plan:
        """Return the plan of a point, one with an error where its process left none."""
        path = self.folder / f"{job['number']}.plan.json"
        return Plan(**json.loads(path.read_text())) if path.exists() else Plan(error="its calls could not be planned")

    def count(self, points: Sequence[Point], jobs: Sequence[Mapping[str, Any]], log: Path, *, nvtx: bool) -> list[Result]:
        """Count planned points in one profiled program.

        `log` keeps ncu's table, a file beside it the plans.
        """
        runnable = [job for job in jobs if not self.plan_of(job).error]
        argv = command(self.ncu, log, program("counted", runnable, self.folder), nvtx=nvtx)
        finished = run_process(argv, timeout_s=self.left_s)
        plans = [self.plan_of(job) for job in jobs]  # again: a point may have failed in the profiled program
        paths = [self.folder / f"{job['number']}.environment.json" for job in jobs]
        environments: list[dict[str, Any]] = [
            {**(json.loads(path.read_text()) if path.exists() else {}), **self.versions} for path in paths
        ]
        kept = [{**job, **asdict(one), "environment": it} for job, one, it in zip(jobs, plans, environments, strict=True)]
        log.with_suffix(".plans.json").write_text(json.dumps(kept))
        try:
            return list(records(points, plans, environments, log.read_text()))
        except (OSError, ValueError, IoawareError) as error:
            why = scrub(f"{error}\nthe profiled process {finished.how}\n{finished.stderr[-TAIL_CHARACTERS:]}")
            return [failure(point.target, point.params, why, self.versions) for point in points]


def program(part: str, jobs: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """Return the argv of a part of this script, on some points."""
    path = folder / f"{part}-{jobs[0]['number'] if jobs else 'none'}.json"
    path.write_text(json.dumps(jobs))
    return [sys.executable, __file__, "--part", part, str(path)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every point was counted, 3 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="+", help="a study's name or TOML file; of a part, its points")
    parser.add_argument("--store", type=Path, help="where the points are kept; points known there are not counted again")
    parser.add_argument("--processes", type=int, default=6, help="how many plan at once")
    parser.add_argument("--at-once", type=int, default=24, help="points of one profiled program, after which they are stored")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of one program")
    parser.add_argument(
        "--total", type=float, default=math.inf, help="seconds after which no program is started or left running"
    )
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.part:
        job_file = Path(given.study[0])
        PARTS[given.part](json.loads(job_file.read_bytes()), job_file.parent)
        return 0
    if given.store is None:
        parser.error("--store is missing")
    ncu, machine, end_s = find_ncu(), gpu_name(), time.monotonic() + given.total
    with Store(given.store) as store, tempfile.TemporaryDirectory(prefix="ioaware-") as folder:
        wanted = [point for name in given.study for point in find_study(name).points]
        points = [point for point in wanted if store.status(point, machine=machine) in (None, "failed")]
        jobs = [{**point.to_job(), "number": number} for number, point in enumerate(points)]
        session = Session(Path(folder), ncu, {**software_environment(), "ncu": ncu.version_text}, given.limit, end_s)
        session.make_plans(jobs, given.processes)
        print(f"{len(points)} points planned", file=sys.stderr, flush=True)
        bad, nvtx = 0, False
        programs = math.ceil(len(points) / given.at_once)
        for number in range(programs):
            if session.left_s < SHORTEST_S:
                print(f"no time for the last {programs - number} of {programs} programs", file=sys.stderr)
                return INCONCLUSIVE
            share = slice(number, None, programs)  # a mix, so that what there is no time for is of no one kind
            log = given.store.with_suffix(f".{number}.csv")
            results = session.count(points[share], jobs[share], log, nvtx=nvtx)
            if not nvtx and all(one.status == "failed" for one in results):
                print(f"no range by cudaProfilerStart: {results[0].notes[0][:300]}", file=sys.stderr, flush=True)
                nvtx = True
                results = session.count(points[share], jobs[share], log.with_suffix(".nvtx.csv"), nvtx=nvtx)
            for point, result in zip(points[share], results, strict=True):
                store.add(point, result, machine=machine)
                bad += result.status != "ok"
                said = result.notes[0][:300] if result.status != "ok" else ""
                print(f"{point.label}: {result.status} {said}", file=sys.stderr, flush=True)
    return INCONCLUSIVE if bad else 0


PARTS = {"planned": planned, "counted": counted}

if __name__ == "__main__":
    raise SystemExit(main())
