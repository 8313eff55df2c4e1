"""Run the race: prepare, check, interleave and record.

For each point, every back end is prepared and checked, then they are interleaved and recorded.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import BackEnd, UnsupportedError
from ioaware.bench.gpu_timing import COPY, MATMUL, Device, Sample, copy_rate, matmul_rate
from ioaware.bench.interleaving import race
from ioaware.bench.race_record import Entry, Record, Status
from ioaware.bench.reference import Reference, tolerance
from ioaware.bench.workload import sets, shapes, work
from ioaware.errors import MachineError
from ioaware.measurement.nvml import Gpu, Snapshot
from ioaware.measurement.stability import throttled_reasons, unstable_reasons

if TYPE_CHECKING:
    from torch import Tensor

NOT_FINITE_ERROR = sys.float_info.max
"""Relative error in the record of an output with NaN: JSON has no infinity."""

Exclusions = Mapping[tuple[Point, str], tuple[Status, str]]
"""Back ends that failed to compile at a point, and why."""


@dataclass(frozen=True)
class Session:
    """State that all points share: the GPU, the ceilings, and own GPU processes.

    The GPU is by torch and by NVML, and the processes are those of this process.
    """

    device: Device
    gpu: Gpu
    ceilings: Mapping[str, Sample]
    own_processes: frozenset[int]
    environment: Mapping[str, Any]


def measure(point: Point, ends: Sequence[BackEnd], session: Session, rounds: int, exclusions: Exclusions) -> Record:
    """Measure one point.

    A back end that fails becomes an entry with the reason; a lost CUDA context raises `MachineError`.
    """
    inputs = [session.device.inputs(shapes(point), point.dtype, seed) for seed in range(sets(point))]
    reference = Reference(point, inputs[0])
    entries: list[Entry] = []
    samples: dict[str, Sample] = dict(session.ceilings)
    for end in ends:
        entry, sample = _prepare(point, end, inputs, reference, session.device, exclusions)
        entries.append(entry)
        if sample is not None:
            samples[end.name] = sample
    clock = session.device.clock(samples, session.gpu)
    race(list(samples), 1, clock)  # warms up clock and caches
    clock.snapshots.clear()
    times = race(list(samples), rounds, clock)
    with session.device.on_side_stream():
        invalid = {name for name, sample in samples.items() if not sample.check()}
    return Record(
        point,
        tuple(finished(entry, times.get(entry.name), entry.name in invalid) for entry in entries),
        matmul_rate(times[MATMUL]),
        copy_rate(times[COPY]),
        telemetry(session.gpu, clock.snapshots, session.own_processes),
        session.environment,
    )


def finished(entry: Entry, times_ns: Sequence[float] | None, invalid: bool) -> Entry:
    """Return the entry with its times, if it was timed and its output is still right."""
    if times_ns is None:
        return entry
    if invalid:
        return Entry(entry.name, "wrong", entry.ran, "its output was no longer right after the race")
    return Entry(entry.name, "ok", entry.ran, entry.reason, tuple(times_ns), entry.host_us, entry.graph, entry.relative_error)


def _prepare(
    point: Point, end: BackEnd, inputs: list[list[Tensor]], reference: Reference, device: Device, exclusions: Exclusions
) -> tuple[Entry, Sample | None]:
    """Return the entry without times, and its sample if the output is right."""
    if not end.present:
        return Entry(end.name, "absent", reason=f"{end.needs} is not installed"), None
    if (point, end.name) in exclusions:
        status, reason = exclusions[point, end.name]
        return Entry(end.name, status, reason=reason), None
    try:
        candidate = end.prepare(point)
        with device.on_side_stream(), candidate.within():
            first = work(point, candidate, inputs[0])
            device.poison(inputs[0][0].nbytes)
            error = reference.error(first())
            ran = candidate.ran()
            if not error <= tolerance(point):
                message = f"relative error {error:.2g}, allowed {tolerance(point):.2g}"
                return Entry(end.name, "wrong", ran, message, relative_error=min(error, NOT_FINITE_ERROR)), None
            runs = [first, *(work(point, candidate, one) for one in inputs[1:])]
            for run in runs:
                run()
            host_us = device.host_us(first)
            sample = device.sample(runs, lambda outputs: reference.error(outputs) <= tolerance(point))
    except UnsupportedError as refusal:
        return Entry(end.name, "unsupported", reason=str(refusal)), None
    except Exception as error:  # a back end may raise anything
        if device.lost():
            raise MachineError(
                f"{end.name} at {point.label} destroyed the CUDA context ({describe(error)})",
                f"The points before it are kept; leave {end.name} out with --backends, or report this.",
            ) from error
        return Entry(end.name, "failed", reason=describe(error)), None
    return Entry(end.name, "ok", ran, sample.reason, (), host_us, sample.captured, error), sample


def describe(error: BaseException) -> str:
    """Return an exception as one line of bounded length."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def telemetry(gpu: Gpu, snapshots: Sequence[Snapshot], own_processes: frozenset[int]) -> dict[str, Any]:
    """Return clocks, power and temperature during the rounds.

    Reasons to distrust them are returned too.
    """
    seen: dict[str, Any] = {}
    for name in ("sm_clock_mhz", "memory_clock_mhz", "power_mw", "temperature_c"):
        values = [value for one in snapshots if (value := getattr(one, name)) is not None]
        if values:
            seen[name] = {"min": min(values), "median": statistics.median(values), "max": max(values)}
    return seen | {
        "throttled": throttled_reasons(gpu.limits, snapshots),
        "unstable": unstable_reasons(gpu.limits, snapshots, own_processes, None),
    }


def run(
    points: Sequence[Point],
    ends: Sequence[BackEnd],
    session: Session,
    *,
    rounds: int,
    exclusions: Exclusions,
    enough: Callable[[], bool],
    done: Callable[[Record], None],
) -> list[Point]:
    """Measure the points in turn; `done` receives each record.

    Returns the points that are left when `enough` returns True.
    """
    for number, point in enumerate(points):
        if enough():
            return list(points[number:])
        done(measure(point, ends, session, rounds, exclusions))
    return []
