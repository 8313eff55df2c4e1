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
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ioaware._monkeypatch import Patches
from ioaware.cli.exit_codes import INCONCLUSIVE
from ioaware.environment import gpu_environment, scrub, software_environment
from ioaware.errors import IoawareError
from ioaware.measurement.assemble_result import failure
from ioaware.measurement.counters.kernel_attribution import METRICS, attribute
from ioaware.measurement.counters.l1_counters import L1_COUNTERS, SHARED_COUNTERS
from ioaware.measurement.counters.launch_log import TritonLaunch, watch_launches
from ioaware.measurement.counters.ncu import Ncu, command, find_ncu
from ioaware.measurement.counters.ncu_csv import Metric, read_table
from ioaware.measurement.gpu_lock import gpu_lease
from ioaware.measurement.nvml import Gpu, load_nvml, open_gpu
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
PATIENCE_S = 2.0
LIMIT_S = 600.0
MOST_LAUNCHES = 64
SHARE = 24
"""Points of one profiled process.

Its records are kept when it ends, and all of them are lost with it.
"""
TAIL_CHARACTERS = 1500
SHOWN_FAILURES = 8
NOTES = (
    "bytes alone: not timed, the output not checked, torch's own kernels not counted",
    "caches are flushed before each kernel: what a kernel leaves in the L2 does not serve the next one",
)


@contextmanager
def first_configurations() -> Generator[None]:
    """Let autotuned kernels run their first configuration that launches, untimed."""
    from triton.runtime.errors import OutOfResources, PTXASError

    from ioaware.fakegpu.autotuning import ConfigurationError, patch_autotuners, run_one_configuration

    def run(plain: Callable[..., Any], tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def launched(*args: Any, **kwargs: Any) -> Any:
            try:
                return plain(*args, **kwargs)
            except (OutOfResources, PTXASError) as error:
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


def compiled(points: Sequence[Mapping[str, Any]], folder: Path) -> None:  # noqa: ARG001
    """Runs each point once, so that its kernels are in Triton's cache."""
    import torch

    for point in points:
        try:
            build(point).run()
            torch.cuda.synchronize()
        except Exception as error:  # the process that measures will say so again
            print(f"{point['target']}: {error}", file=sys.stderr)
        torch.cuda.empty_cache()


def profiled(points: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Call each point once under ncu, every launch in a numbered range.

    The number goes on from point to point.
    """
    from ioaware.measurement.cuda_device import Cuda

    gpu = open_gpu(load_nvml())
    importlib.import_module("triton")  # seconds that need no GPU, so before the lease
    with gpu_lease(gpu.limits.uuid, timeout_s=LIMIT_S):
        others = _other_processes(gpu)
        device = Cuda()
        own = frozenset(set(gpu.processes()) - others)
        made = 0
        for number, point in enumerate(points):
            try:
                launches = _called(point, device, made)
            except Exception as error:  # a kernel that does not run is one failed record
                report = Report(error=describe_error(error))
            else:
                made += len(launches)
                report = Report(
                    point["target"],
                    point["params"],
                    launches,
                    environment=gpu_environment(gpu.limits) | device.describe(),
                    unstable=tuple(unstable_reasons(gpu.limits, [gpu.snapshot()], own, device.uuid)),
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


def _other_processes(gpu: Gpu) -> set[int]:
    """Return the processes on this GPU before this one.

    The previous one may take a moment to disappear.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (found := set(gpu.processes())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def records(
    points: Sequence[Point],
    reports: Sequence[Report],
    log: str,
    versions: Mapping[str, Any],
    metrics: Sequence[Metric] = COUNTERS["l1"],
) -> list[Result]:
    """A record a point, from what its process said and what ncu counted."""
    counted = iter(attribute(read_table(log, metrics), [launch for report in reports for launch in report.launches]))
    return [
        _record(point, report, tuple(next(counted) for _ in report.launches), versions)
        for point, report in zip(points, reports, strict=True)
    ]


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
    points: Sequence[Point], ncu: Ncu, versions: Mapping[str, Any], metrics: Sequence[Metric] = COUNTERS["l1"]
) -> list[Result]:
    """One profiled process over some points.

    What it dies of is every one of its points' failure.
    """
    with tempfile.TemporaryDirectory(prefix="ioaware-") as name:
        folder, log = Path(name), Path(name) / "ncu.csv"
        names = [metric.name for metric in metrics]
        program = _program("profiled", points, folder)
        with hold_parent_lock(folder / "lock"):
            finished = run_process(command(ncu, names, log, program, launches_only=True), timeout_s=LIMIT_S)
        try:
            reports = [report for number in range(len(points)) if (report := Report.read(folder / f"{number}.json"))]
            return records(points, reports, log.read_text(), versions, metrics)
        except (OSError, ValueError, IoawareError) as error:
            why = scrub(f"{error}\nthe profiled process {finished.how}\n{finished.stderr[-TAIL_CHARACTERS:]}")
            return [failure(point.target, point.params, why, versions) for point in points]


def compile_all(points: Sequence[Point]) -> None:
    """The kernels of some points into Triton's cache, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="ioaware-") as folder:
        with hold_parent_lock(Path(folder) / "lock"):
            finished = run_process(_program("compiled", points, Path(folder)), timeout_s=LIMIT_S)
        print(finished.stderr, end="", file=sys.stderr)


def _program(part: str, points: Sequence[Point], folder: Path) -> list[str]:
    (folder / "points.json").write_text(json.dumps([point.to_job() for point in points]))
    return [sys.executable, __file__, "--part", part, str(folder)]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every point's bytes hold, 3 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="+", help="a study's name or TOML file; of a part, its folder")
    parser.add_argument("--store", type=Path, help="where the points are kept; points known there are not asked again")
    parser.add_argument("--processes", type=int, default=6, help="how many share the points")
    parser.add_argument("--counters", choices=COUNTERS, default="l1", help="of requests to the L1, or of shared memory")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.part:
        folder = Path(given.study[0])
        watch_parent(folder / "lock")
        with first_configurations():
            PARTS[given.part](json.loads((folder / "points.json").read_bytes()), folder)
        return 0
    if given.store is None:
        parser.error("--store is missing")
    ncu, machine = find_ncu(), gpu_name()
    versions = {**software_environment(), "ncu": ncu.version_text}
    with Store(given.store) as store, ThreadPoolExecutor(given.processes) as pool:
        wanted = [point for name in given.study for point in find_study(name).points]
        points = [point for point in wanted if store.status(point, machine=machine) in (None, "failed")]
        parts = min(given.processes, len(points))
        list(pool.map(compile_all, [points[start::parts] for start in range(parts)]))
        print(f"{len(points)} points compiled", file=sys.stderr)
        bad: list[str] = []
        measure = partial(measured, ncu=ncu, versions=versions, metrics=COUNTERS[given.counters])
        parts = max(parts, -(-len(points) // SHARE))
        shares = [points[start::parts] for start in range(parts)]
        shares_of = {pool.submit(measure, share): share for share in shares}
        for done in as_completed(shares_of):
            for point, result in zip(shares_of[done], done.result(), strict=True):
                store.add(point, result, machine=machine)
                print(f"{point.label}: {result.status}", file=sys.stderr)
                if result.status not in BYTES_HOLD:
                    bad.append(f"{point.label}: {result.notes[0]}")
    print(f"{len(bad)} of {len(points)} points have no bytes", *bad[:SHOWN_FAILURES], sep="\n", file=sys.stderr)
    return INCONCLUSIVE if bad else 0


PARTS = {"compiled": compiled, "profiled": profiled}

if __name__ == "__main__":
    raise SystemExit(main())
