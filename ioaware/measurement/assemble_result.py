"""Assemble one `Result` from the worker reports: totals by origin, and the status.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioaware.measurement.counters.launch_log import TritonLaunch
from ioaware.measurement.stability import impossible_reasons
from ioaware.measurement.worker_protocol import Report
from ioaware.result import Launch, ParamValue, Result, Status, Traffic, total

UNCHECKED_TOLERANCE = 1e-2
"""Relative difference allowed between the norms of two runs' outputs.

It applies where the target has no tolerance.
"""


@dataclass(frozen=True, slots=True)
class Profiled:
    """The kernels that ncu counted in one call of the work.

    The worker's report of that call comes with them.
    """

    report: Report
    launches: tuple[Launch, ...]
    l2_read_sector_bytes: int


def assemble_result(
    timed: Report,
    profiled: Profiled | None,
    *,
    compulsory: Traffic | None,
    environment: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> Result:
    """Return one result of both workers.

    Totals count Triton's kernels; torch's own are listed under `assumed`. A refused output leaves no bytes and no time. Status
    is "impossible" where numbers contradict physics, "unstable" where other processes used the GPU, "throttled" where clocks
    changed. The notes give the reasons.
    """
    remarks = [*notes, *timed.notes, *(profiled.report.notes if profiled else ())]
    result = Result(
        source="measure",
        target=timed.target,
        params=timed.params,
        compulsory=compulsory,
        extra_memory_bytes=timed.extra_memory_bytes,
        launches=tuple(map(_without_counters, timed.launches)),
        check=timed.check,
        environment={**timed.environment, **environment},
        exact=False,
    )
    refused = timed.refused or (_disagreement(timed, profiled.report) if profiled else None)
    if refused:
        return replace(
            result, status="failed", notes=(f"no bytes and no time are shown: {refused}", *remarks), extra_memory_bytes=None
        )
    if timed.check is None:
        remarks.append("the output was not checked: the target gives no reference")
    telemetry = dict(timed.telemetry)
    status: Status = "unstable" if timed.unstable else "throttled" if timed.throttled else "ok"
    remarks = [
        *(f"unstable: {reason}" for reason in timed.unstable),
        *(f"throttled, so the time is not comparable: {reason}" for reason in timed.throttled),
        *remarks,
    ]
    if profiled:
        peak = timed.environment.get("peak_hbm_bytes_per_s")
        impossible = impossible_reasons(profiled.launches, compulsory, peak)
        status = "impossible" if impossible else status
        remarks = [*(f"impossible: {reason}" for reason in impossible), *remarks]
        telemetry["l2_read_sector_bytes"] = profiled.l2_read_sector_bytes
        result, totals_notes = _with_totals(result, profiled.launches)
        remarks += totals_notes
    return replace(
        result,
        status=status,
        notes=tuple(remarks),
        time_ns=timed.timing.median_ns if timed.timing else None,
        timing=timed.timing,
        telemetry=telemetry,
    )


def failure(target: str, params: Mapping[str, ParamValue], why: str, environment: Mapping[str, Any]) -> Result:
    """Return the record of a point that failed: only the reason, no numbers."""
    return Result(source="measure", target=target, params=params, status="failed", notes=(why,), environment=environment)


def _with_totals(result: Result, launches: tuple[Launch, ...]) -> tuple[Result, list[str]]:
    triton = [launch for launch in launches if launch.origin == "triton"]
    torch = [launch for launch in launches if launch.origin == "torch"]
    notes = ["caches are flushed before each kernel: what a kernel leaves in the L2 does not serve the next one"]
    if triton:
        requested, hbm = total(launch.requested for launch in triton), total(launch.hbm for launch in triton)
        result = replace(result, requested=requested, hbm=hbm)
    else:
        notes.append("no Triton kernel ran in the work: all its kernels are torch's own, under assumed")
    if torch:
        result = replace(result, assumed=total(launch.requested for launch in torch))
        notes.append(f"{len(torch)} kernels of torch's own are under assumed, as measured, and not in the totals")
    return replace(result, launches=launches), notes


def _without_counters(launch: TritonLaunch) -> Launch:
    return Launch(
        launch.kernel,
        launch.grid,
        "triton",
        shared_bytes=launch.shared_bytes,
        registers=launch.registers,
        local_bytes=launch.local_bytes,
        configuration=launch.configuration,
    )


def _disagreement(timed: Report, profiled: Report) -> str | None:
    """Compare the outputs of the counted and the checked call by their norms.

    Both see the same inputs.
    """
    first, second = timed.output_norm, profiled.output_norm
    if first is None or second is None:
        return None if first == second else "only one of the checked and the counted call has a finite output"
    tolerance = timed.check.tolerance if timed.check else UNCHECKED_TOLERANCE
    if abs(first - second) <= tolerance * max(first, second):
        return None
    return f"the counted call computed something else than the checked one (norms {second:.6g} and {first:.6g})"
