"""Measure the study of third-party kernels on a GPU: bytes and L1 counters.

Each profiled process measures several points.

    PYTHONPATH=. FOREIGN_LIGER=PATH ... python scripts/foreign/measure.py scripts/foreign/h200-foreign.toml --store FILE

`ioaware sweep` measures such a study too, with time and energy, each point in two separate processes. Here one process measures
many points, because starting libraries and profiler is slow. Kernels are compiled before, in parallel; torch's own kernels are
not profiled. Autotuned kernels run their first configuration that launches, which is the one that `derive` takes; the record
names it. Kernels of torch.compile run the configuration that PyTorch's own tuner chose.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ioaware._monkeypatch import Patches
from ioaware.cli.exit_codes import INCONCLUSIVE
from ioaware.environment import gpu_environment, scrub, software_environment
from ioaware.errors import DataError, IoawareError
from ioaware.measurement.assemble_result import failure
from ioaware.measurement.counters.kernel_attribution import METRICS, attribute
from ioaware.measurement.counters.l1_counters import L1_COUNTERS, SHARED_COUNTERS
from ioaware.measurement.counters.launch_log import TritonLaunch, watch_launches
from ioaware.measurement.counters.ncu import Ncu, command, find_ncu
from ioaware.measurement.counters.ncu_csv import Metric, read_table
from ioaware.measurement.gpu_lock import gpu_lease
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.measurement.parent_watchdog import hold_parent_lock, watch_parent
from ioaware.measurement.stability import impossible_reasons, unstable_reasons
from ioaware.measurement.subprocesses import run_process
from ioaware.measurement.worker_protocol import Report, describe_error
from ioaware.result import BYTES_HOLD, Launch, Result, total
from ioaware.sweep.gpu_name import gpu_name
from ioaware.sweep.points import Point
from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study

if TYPE_CHECKING:
    from ioaware.measurement.cuda_device import Cuda

COUNTERS: Mapping[str, tuple[Metric, ...]] = {"l1": (*METRICS, *L1_COUNTERS), "shared": (*METRICS, *SHARED_COUNTERS)}
SEED = 0
LIMIT_S = 600.0
MOST_LAUNCHES = 64
SHARE = 24
"""Points of one profiled process.

Its records are kept when it ends, and all of them are lost with it.
"""
TAIL_CHARACTERS = 1500
SHOWN_FAILURES = 8
TRACED = "torch_compiled.py:"
NOTES = (
    "bytes alone: not timed, the output not checked, torch's own kernels not counted",
    "caches are flushed before each kernel: what a kernel leaves in the L2 does not serve the next one",
)


@contextmanager
def first_configurations() -> Generator[None]:
    """Let autotuned kernels run their first configuration that launches, untimed.

    Those are passed over that Triton's autotuner passes over.
    """
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime.errors import OutOfResources, PTXASError

    from ioaware.fakegpu.autotuning import ConfigurationError, patch_autotuners, run_one_configuration

    def run(plain: Callable[..., Any], tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def launched(*args: Any, **kwargs: Any) -> Any:
            try:
                return plain(*args, **kwargs)
            except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as error:
                raise ConfigurationError(str(error)) from error

        return run_one_configuration(launched, tuner, args, kwargs, required={}, verb="measured", add_note=_silent)

    with Patches() as patches:
        patch_autotuners(patches, run)
        yield


def _silent(_: str) -> None:
    """Drop the note: the record names the configuration."""


def build(point: Mapping[str, Any]) -> Any:
    """The work of a point, on seeded inputs."""
    import torch

    from ioaware.targets.target import load_target

    target = load_target(point["target"])
    cast(Any, torch).manual_seed(SEED)
    return target.build(device="cuda", **target.resolve(point["params"]))


def compiled(job: Mapping[str, Any], folder: Path) -> None:  # noqa: ARG001
    """Run each point once, so that its kernels are in Triton's cache."""
    import torch

    for point in job["points"]:
        if time.time() > job["until"]:
            return
        try:
            build(point).run()
            torch.cuda.synchronize()
        except Exception as error:  # the process that measures will say so again
            print(f"{point['target']}: {error}", file=sys.stderr)
        torch.cuda.empty_cache()


def import_libraries(points: Sequence[Mapping[str, Any]]) -> None:
    """Import what the points need, without the GPU.

    This takes longer than to measure them. They are built on tensors without memory. What fails here is measured all the same.
    """
    from ioaware.targets.target import load_target

    importlib.import_module("triton")
    for point in points:
        with suppress(Exception):
            target = load_target(point["target"])
            target.build(device="meta", **target.resolve(point["params"]))
        if TRACED in point["target"]:
            importlib.import_module("torch._inductor.compile_fx")
        if "/gems_" in point["target"]:
            with suppress(Exception):
                importlib.import_module("gems").package("flag_gems.ops")


def profiled(job: Mapping[str, Any], folder: Path) -> None:
    """Call each point once under ncu, every launch in a numbered range.

    The number goes on from point to point. It stops where the time is up.
    """
    from ioaware.measurement.cuda_device import Cuda

    gpu = open_gpu(load_nvml())
    import_libraries(job["points"])
    with gpu_lease(gpu.limits.uuid, timeout_s=LIMIT_S):
        end = min(job["until"], time.time() + job["slice_s"])
        device = Cuda()
        made = 0
        for number, point in enumerate(job["points"]):
            if time.time() > end:
                return
            try:
                launches = _called(point, device, made)
            except Exception as error:  # a kernel that does not run is one failed record
                report = Report(error=describe_error(error))
            else:
                made += len(launches)
                own = set(gpu.processes()) - set(job["running_before"])
                report = Report(
                    point["target"],
                    point["params"],
                    launches,
                    environment=gpu_environment(gpu.limits) | device.describe(),
                    unstable=tuple(
                        unstable_reasons(gpu.limits, [gpu.snapshot()], own if len(own) <= job["siblings"] else (), device.uuid)
                    ),
                )
            report.write(folder / f"{number}.json")
            device.empty_cache()


def _called(point: Mapping[str, Any], device: Cuda, first: int) -> tuple[TritonLaunch, ...]:
    """Rehearse twice, then make the call that is profiled.

    Its launches are numbered from `first`.
    """
    work = build(point)
    work.run()
    with watch_launches() as rehearsed:
        work.run()
    device.synchronize()
    if len(rehearsed) > MOST_LAUNCHES:
        raise RuntimeError(f"{len(rehearsed)} launches, more than {MOST_LAUNCHES}, take too long to count")
    device.empty_cache()

    def push(name: str) -> None:
        device.push_range(f"ioaware:{first + int(name.rpartition(':')[2])}")

    with watch_launches(push, device.pop_range) as launches:
        device.profile(work.run)
    if [one.compiled_name for one in launches] != [one.compiled_name for one in rehearsed]:
        raise RuntimeError("the profiled call launched other kernels than the call before it")
    return tuple(launches)


def records(
    points: Sequence[Point],
    reports: Sequence[Report],
    log: str,
    versions: Mapping[str, Any],
    metrics: Sequence[Metric] = COUNTERS["l1"],
) -> list[Result]:
    """A record a point, from what its process said and what ncu counted.

    A point whose launches and kernels do not match is one failed record.
    """
    table, made = read_table(log, metrics), 0
    found: list[Result] = []
    for point, report in zip(points, reports, strict=True):
        first, made = made, made + len(report.launches)
        its = [row for row in table.rows if row.launch_index is not None and first <= row.launch_index < made]
        moved = tuple(replace(row, launch_index=(row.launch_index or 0) - first) for row in its)
        try:
            found.append(_record(point, report, attribute(replace(table, rows=moved), report.launches), versions))
        except DataError as error:
            found.append(failure(point.target, point.params, str(error), {**report.environment, **versions}))
    return found


def _record(point: Point, report: Report, launches: tuple[Launch, ...], versions: Mapping[str, Any]) -> Result:
    environment = {**report.environment, **versions}
    if report.error:
        return failure(point.target, point.params, f"{report.error['kind']}: {report.error['what']}", environment)
    impossible = impossible_reasons(launches, None, environment.get("peak_hbm_bytes_per_s"))
    return Result(
        "measure",
        point.target,
        point.params,
        requested=total(launch.requested for launch in launches),
        hbm=total(launch.hbm for launch in launches),
        exact=False,
        status="impossible" if impossible else "unstable" if report.unstable else "ok",
        notes=(*impossible, *report.unstable, *NOTES),
        launches=launches,
        environment=environment,
    )


def measured(
    points: Sequence[Point],
    ncu: Ncu,
    versions: Mapping[str, Any],
    limits: Mapping[str, Any],
    metrics: Sequence[Metric] = COUNTERS["l1"],
) -> list[Result]:
    """One profiled process over some points; those without time have no record.

    What it dies of is every one of its points' failure.
    """
    with tempfile.TemporaryDirectory(prefix="ioaware-") as name:
        folder, log = Path(name), Path(name) / "ncu.csv"
        names = [metric.name for metric in metrics]
        program = _program("profiled", points, folder, limits)
        with hold_parent_lock(folder / "lock"):
            finished = run_process(command(ncu, names, log, program, launches_only=True), timeout_s=LIMIT_S)
        try:
            reports = [report for number in range(len(points)) if (report := Report.read(folder / f"{number}.json"))]
            if len(reports) < len(points) and finished.returncode != 0:
                raise DataError("not every point was measured")
            if not any(report.launches for report in reports):
                return [_record(point, report, (), versions) for point, report in zip(points, reports, strict=False)]
            return records(points[: len(reports)], reports, log.read_text(), versions, metrics)
        except (OSError, ValueError, IoawareError) as error:
            why = scrub(f"{error}\nthe profiled process {finished.how}\n{finished.stderr[-TAIL_CHARACTERS:]}")
            return [failure(point.target, point.params, why, versions) for point in points]


def compile_all(points: Sequence[Point], limits: Mapping[str, Any]) -> None:
    """The kernels of some points into Triton's cache, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="ioaware-") as folder:
        with hold_parent_lock(Path(folder) / "lock"):
            finished = run_process(_program("compiled", points, Path(folder), limits), timeout_s=LIMIT_S)
        print(finished.stderr, end="", file=sys.stderr)


def _program(part: str, points: Sequence[Point], folder: Path, limits: Mapping[str, Any]) -> list[str]:
    job = {**limits, "points": [point.to_job() for point in points]}
    (folder / "job.json").write_text(json.dumps(job))
    return [sys.executable, __file__, "--part", part, str(folder)]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every point's bytes hold, 3 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="+", help="a study's name or TOML file; of a part, its folder")
    parser.add_argument("--store", type=Path, help="where the points are kept; points known there are not asked again")
    parser.add_argument("--processes", type=int, default=6, help="how many share the points")
    parser.add_argument("--counters", choices=COUNTERS, default="l1", help="of requests to the L1, or of shared memory")
    parser.add_argument("--compile-limit", type=float, default=math.inf, help="seconds to compile in; the rest compiles later")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no other point is begun")
    parser.add_argument("--slice", type=float, default=math.inf, help="seconds of one process on the GPU")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.part:
        folder = Path(given.study[0])
        watch_parent(folder / "lock")
        with first_configurations():
            PARTS[given.part](json.loads((folder / "job.json").read_bytes()), folder)
        return 0
    if given.store is None:
        parser.error("--store is missing")
    start = time.time()
    ncu, machine, running_before = find_ncu(), gpu_name(), sorted(open_gpu(load_nvml()).processes())
    versions = {**software_environment(), "ncu": ncu.version_text}
    limits = {
        "until": start + given.limit,
        "slice_s": given.slice,
        "running_before": running_before,
        "siblings": given.processes,
    }
    with Store(given.store) as store, ThreadPoolExecutor(given.processes) as pool:
        wanted = [point for name in given.study for point in find_study(name).points]
        points = [point for point in wanted if store.status(point, machine=machine) in (None, "failed")]
        compiling = {**limits, "until": start + given.compile_limit}
        list(pool.map(partial(compile_all, limits=compiling), shares(points, given.processes)))
        print(f"{time.time() - start:.0f} s: compiled {len(points)} points", file=sys.stderr, flush=True)
        measure = partial(measured, ncu=ncu, versions=versions, limits=limits, metrics=COUNTERS[given.counters])
        parts = given.processes if given.slice < math.inf else max(given.processes, -(-len(points) // SHARE))
        running = {pool.submit(measure, share): share for share in shares(points, parts)}
        known: list[str] = []
        bad: list[str] = []
        for done in as_completed(running):
            for point, result in zip(running[done], done.result(), strict=False):
                store.add(point, result, machine=machine)
                known.append(point.label)
                if result.status not in BYTES_HOLD:
                    bad.append(f"{point.label}: {result.notes[0]}")
            print(f"{time.time() - start:.0f} s: {len(known)} of {len(points)} points", file=sys.stderr, flush=True)
    missing = len(points) - len(known) + len(bad)
    print(f"{missing} of {len(points)} points have no bytes", *bad[:SHOWN_FAILURES], sep="\n", file=sys.stderr)
    return INCONCLUSIVE if missing else 0


def shares(points: Sequence[Point], count: int) -> list[list[Point]]:
    """Deal points to processes.

    Those of one file go to few, since to import its library takes seconds. Functions of torch.compile, whose tracing takes
    seconds on the GPU, go to all in turn. Each process keeps the order of the study: what comes first is measured first.
    """
    traced = [at for at, point in enumerate(points) if TRACED in point.target]
    others = sorted(set(range(len(points))).difference(traced), key=lambda at: (points[at].target.partition(":")[0], at))
    size = max(1, math.ceil(len(others) / count))
    dealt = [[*others[size * process : size * (process + 1)], *traced[process::count]] for process in range(count)]
    return [[points[at] for at in sorted(share)] for share in dealt if share]


PARTS = {"compiled": compiled, "profiled": profiled}

if __name__ == "__main__":
    raise SystemExit(main())
