"""Measure one point on the GPU.

The command is `python -m ioaware.measurement.worker time|profile SPEC OUT`.
"""

from __future__ import annotations

import faulthandler
import importlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware.environment import gpu_environment
from ioaware.errors import IoawareError
from ioaware.measurement.counters.launch_log import watch_launches
from ioaware.measurement.gpm import MINIMUM_WINDOW_S, GpmWindow
from ioaware.measurement.gpu_lock import gpu_lease
from ioaware.measurement.nvml import Gpu, load_nvml, open_gpu
from ioaware.measurement.parent_watchdog import watch_parent
from ioaware.measurement.stability import throttled_reasons, unstable_reasons
from ioaware.measurement.timed_calls import time_calls
from ioaware.measurement.worker_protocol import Report, Spec, describe_error, started_marker
from ioaware.result import Check, ParamValue, Timing
from ioaware.targets import output_check

if TYPE_CHECKING:
    from ioaware.case import Work
    from ioaware.measurement.cuda_device import Cuda

SEED = 0
"""Seed of both modes.

The profiled kernels get the inputs that were checked and timed.
"""


PROCESS_EXIT_WAIT_S = 2.0


@dataclass(frozen=True)
class GpuContext:
    """The GPU through torch and through NVML, and the processes of this worker on it."""

    device: Cuda
    gpu: Gpu
    own_processes: frozenset[int]


def main(arguments: Sequence[str]) -> int:
    """Measure and write a report; return 1 if it holds an error."""
    mode, spec_path, out_path = arguments
    spec = Spec.read(Path(spec_path))
    started_marker(Path(out_path)).touch()
    watch_parent(Path(spec.parent_lock))
    try:
        report = measure_point(MODES[mode], spec)
    except BaseException as error:  # a target may raise anything, SystemExit included
        if not isinstance(error, IoawareError):
            traceback.print_exc()
        report = Report(error=describe_error(error))
    report.write(Path(out_path))
    return 1 if report.error else 0


def measure_point(mode: Mode, spec: Spec) -> Report:
    """Import and check on the CPU, then lock the GPU, then start CUDA."""
    from ioaware.measurement.cuda_device import Cuda
    from ioaware.targets.target import load_target

    gpu = open_gpu(load_nvml())
    target = load_target(spec.target)
    params = target.resolve(spec.params, typed=False)
    importlib.import_module("torch")  # seconds that need no GPU, so before the lease

    with gpu_lease(gpu.limits.uuid, timeout_s=spec.lease_timeout_s, waiting=Path(spec.waiting)):
        # A hanging worker ends by itself with a traceback, even without a parent to kill it.
        faulthandler.dump_traceback_later(spec.timeout_s, exit=True)
        try:
            others = _other_processes(gpu)
            device = Cuda()
            context = GpuContext(device, gpu, frozenset(set(gpu.processes()) - others))
            device.seed(SEED)
            return mode(target.name, params, target.build(device=device.name, **params), context, spec)
        finally:
            faulthandler.cancel_dump_traceback_later()


def _other_processes(gpu: Gpu) -> set[int]:
    """Return the processes on the GPU before this one.

    The previous worker may take a moment to vanish from NVML.
    """
    deadline = time.monotonic() + PROCESS_EXIT_WAIT_S
    while (found := set(gpu.processes())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def time_work(target: str, params: dict[str, ParamValue], work: Work, context: GpuContext, spec: Spec) -> Report:
    """Check, then measure launches, memory, time, clocks and energy.

    A refused output stops it.
    """
    device, gpu = context.device, context.gpu
    size = output_check.output_bytes(work.run())  # compiles and tunes
    with watch_launches() as launches:
        peak, output = device.peak_requested_bytes(work.run)
    extra = None if peak is None else max(0, peak - output_check.output_bytes(output))
    del output
    check, norm, refused = check_work(work, device, poison_bytes=(peak or size) + 2**26)
    environment = gpu_environment(gpu.limits) | device.describe()
    report = Report(
        target, params, tuple(launches), check, norm, extra_memory_bytes=extra, environment=environment, refused=refused
    )
    if refused:
        return report
    once = device.timer(work.run, device.host_seconds(work.run), gpu.limits.max_sm_clock_mhz)
    timing, snapshots, pauses = time_calls(once, gpu, spec.budget_s)
    telemetry, notes = _measure_back_to_back(work, context, spec, timing)
    notes = [*pauses, *notes]
    after = gpu.snapshot()
    telemetry |= {"before": snapshots[0].to_dict(), "after": after.to_dict()}
    throttled = throttled_reasons(gpu.limits, snapshots)
    unstable = unstable_reasons(gpu.limits, [*snapshots, after], context.own_processes, device.uuid)
    later = [reason for reason in throttled_reasons(gpu.limits, [after]) if reason not in throttled]
    notes += [f"after the back-to-back calls, not the timed ones: {reason}" for reason in later]
    return replace(
        report,
        timing=timing,
        telemetry=telemetry,
        notes=tuple(notes),
        throttled=tuple(throttled),
        unstable=tuple(unstable),
    )


def check_work(work: Work, device: Cuda, poison_bytes: int) -> tuple[Check | None, float | None, str | None]:
    """Run once on poisoned memory.

    Return the check, the output's norm, and the reason to refuse it.
    """
    before = [tensor.clone() for tensor in work.inputs]
    device.poison(poison_bytes)
    output = work.run()
    device.synchronize()
    changed = output_check.changed_inputs(before, work.inputs)
    del before
    norm = output_check.output_norm(output)
    found = output_check.tensors(output)
    check = None
    if work.reference is not None and work.tolerance is not None and found:
        check = Check(output_check.worst_error(found, work.reference()), work.tolerance)
    if changed:
        return check, norm, f"the work changes its input {changed[0]}: a repetition would measure something else"
    if check is not None and not check.passed:
        return check, norm, f"the output is wrong: relative error {check.relative_error:.3g}, allowed {check.tolerance:.3g}"
    return check, norm, None


def _measure_back_to_back(work: Work, context: GpuContext, spec: Spec, timing: Timing) -> tuple[dict[str, Any], list[str]]:
    """Measure energy per call and HBM bandwidth.

    The calls are back to back, with a warm L2.
    """
    if spec.window_s < MINIMUM_WINDOW_S:
        return {}, [f"no energy and no GPM bandwidth: a window of {spec.window_s} s is shorter than {MINIMUM_WINDOW_S} s"]
    device, gpu = context.device, context.gpu
    window = GpmWindow(gpu) if GpmWindow.is_supported(gpu) else None
    if timing.median_ns < MINIMUM_WINDOW_S * 1e9:
        device.run_back_to_back(work.run, MINIMUM_WINDOW_S, timing.median_ns)
    energy_before = gpu.energy_mj()
    if window:
        window.sample()
    count, elapsed = device.run_back_to_back(work.run, spec.window_s, timing.median_ns)
    if window:
        window.sample()
    energy_after = gpu.energy_mj()
    reading = window.read() if window else None
    telemetry: dict[str, Any] = {"window": {"seconds": elapsed, "calls": count, "ns_per_call": elapsed * 1e9 / count}}
    notes: list[str] = []
    if energy_before is None or energy_after is None:
        notes.append("no energy: this GPU has no energy counter")
    else:
        telemetry["energy_per_call_mj"] = (energy_after - energy_before) / count
    if reading is None:
        notes.append("no GPM bandwidth: this GPU or driver has no performance monitoring in NVML")
    else:
        telemetry["gpm"] = reading.to_dict()
    return telemetry, notes


def profile_work(target: str, params: dict[str, ParamValue], work: Work, context: GpuContext, spec: Spec) -> Report:  # noqa: ARG001
    """Run once under the profiler, and compare its launches with a call before.

    Each Triton launch is in its NVTX range.
    """
    device = context.device
    work.run()
    with watch_launches() as rehearsed:
        work.run()
    device.empty_cache()
    with watch_launches(device.push_range, device.pop_range) as launches:
        output = device.profile(work.run)
    notes: list[str] = []
    if [launch.compiled_name for launch in rehearsed] != [launch.compiled_name for launch in launches]:
        notes.append("the profiled call launched other kernels than the call before it: the work depends on its history")
    return Report(target, params, tuple(launches), output_norm=output_check.output_norm(output), notes=tuple(notes))


Mode = Callable[[str, "dict[str, ParamValue]", "Work", GpuContext, Spec], Report]
MODES: dict[str, Mode] = {"time": time_work, "profile": profile_work}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
