"""Measure a target with hardware counters, timers and telemetry.

The work is done in worker processes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ioaware.environment import scrub, software_environment
from ioaware.errors import DataError, MachineError
from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.assemble_result import Profiled, assemble_result, failure
from ioaware.measurement.counters.kernel_attribution import L2_READ_SECTORS, METRICS, attribute
from ioaware.measurement.counters.l1_counters import SHARED_COUNTERS
from ioaware.measurement.counters.ncu import STILL_WORKS, Ncu, command, counters_refused, find_ncu, run_failed
from ioaware.measurement.counters.ncu_csv import MAX_CHARACTERS, Metric, read_table
from ioaware.measurement.nvml import NvmlLibrary, load_nvml, open_gpu
from ioaware.measurement.parent_watchdog import hold_parent_lock
from ioaware.measurement.subprocesses import Finished, run_process
from ioaware.measurement.time_bounds import with_bounds
from ioaware.measurement.worker_protocol import Report, Spec, started_marker
from ioaware.result import ParamValue, Result, Traffic

Mode = Literal["time", "profile"]


KILL_MARGIN_S = 5.0
"""A hanging worker exits by itself with a traceback.

After this margin it is killed.
"""

TAIL_CHARACTERS = 1500


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a measurement.

    `counters`: "required" raises where ncu cannot count, "optional" adds a note.

    `shared` counts accesses to shared memory too: counters of each launch.

    `timeout_s` limits each of the two workers, without the wait for the GPU. `budget_s` is the time of the repetitions,
    `window_s` that of the back-to-back calls for energy and GPM bandwidth.
    """

    counters: Literal["required", "optional", "off"] = "required"
    timeout_s: float = 300.0
    lease_timeout_s: float = 3600.0
    budget_s: float = 0.5
    window_s: float = 0.5
    shared: bool = False
    python: str = sys.executable
    ncu: Ncu | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The counters to read."""
        return (*METRICS, *SHARED_COUNTERS) if self.shared else METRICS


class _PointError(Exception):
    """This point cannot be measured; other points may."""


def measure(
    target: str, params: Mapping[str, ParamValue], *, options: Options | None = None, nvml: NvmlLibrary | None = None
) -> Result:
    """Measure one target on the first visible GPU.

    A target is a case, `file.py:function` or `module:function`.

    A point that crashes, hangs or runs out of memory returns status "failed" with the reason in its notes. Raises
    `MachineError` without a GPU, or without counters where they are required; `UsageError` for a target or parameter that
    cannot work.
    """
    options = options or Options()
    open_gpu(nvml or load_nvml())
    environment: dict[str, Any] = dict(software_environment())
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ioaware-") as directory, hold_parent_lock(Path(directory) / "parent_lock"):
        run = _Point(target, params, options, Path(directory))
        try:
            profiled = _profile_and_time(run, environment, notes)
            timed = run.worker("time")
        except _PointError as error:
            return failure(target, params, str(error), environment)
    try:
        compulsory = _compulsory(timed.target, timed.params)
        result = assemble_result(timed, profiled, compulsory=compulsory, environment=environment, notes=notes)
        return with_bounds(result)
    except DataError as error:
        return failure(target, params, str(error), environment)


def _profile_and_time(point: _Point, environment: dict[str, Any], notes: list[str]) -> Profiled | None:
    """Profile first, then time: a machine without counters is reported within seconds."""
    if point.options.counters == "off":
        notes.append("no counters: switched off")
        return None
    try:
        ncu = point.options.ncu or find_ncu()
        environment["ncu"] = ncu.version_text
        return point.profile(ncu)
    except MachineError as error:
        if point.options.counters == "required":
            raise MachineError(error.what, f"{error.remedy}\n  {STILL_WORKS}") from error
        notes.append(f"no counters: {error.what}")
        return None


@dataclass(frozen=True)
class _Point:
    """The worker processes of one point and their files."""

    target: str
    params: Mapping[str, ParamValue]
    options: Options
    directory: Path

    def worker(self, mode: Mode) -> Report:
        """Run a worker alone; return its report or raise `_PointError`."""
        return self._report(mode, self._run(mode, self._program(mode)))

    def profile(self, ncu: Ncu) -> Profiled:
        """Run the worker under ncu. Raises `MachineError` for failures of ncu itself."""
        log = self.directory / "ncu.csv"
        argv = command(ncu, [metric.name for metric in self.options.metrics], log, self._program("profile"))
        finished = self._run("profile", argv)
        text = _read_log(log)
        refused = counters_refused(finished, text)
        if refused is None and not started_marker(self._files("profile")[1]).exists():
            refused = run_failed(finished, text) or MachineError("ncu did not start the worker", "`ioaware doctor` checks ncu.")
        if refused:
            raise refused
        report = self._report("profile", finished)
        failed = run_failed(finished, text)
        if failed:
            raise failed
        try:
            table = read_table(text, self.options.metrics)
            launches = attribute(table, report.launches)
        except DataError as error:
            raise _PointError(str(error)) from error
        sectors = sum(row.values[L2_READ_SECTORS] for row in table.rows)
        return Profiled(report, launches, SECTOR_BYTES * sectors)

    def _program(self, mode: Mode) -> list[str]:
        spec, out = self._files(mode)
        return [self.options.python, "-m", "ioaware.measurement.worker", mode, str(spec), str(out)]

    def _files(self, mode: Mode) -> tuple[Path, Path]:
        return self.directory / f"{mode}.spec.json", self.directory / f"{mode}.report.json"

    def _run(self, mode: Mode, argv: list[str]) -> Finished:
        options, waiting = self.options, self.directory / "waiting"
        Spec(
            self.target,
            dict(self.params),
            timeout_s=options.timeout_s,
            lease_timeout_s=options.lease_timeout_s,
            budget_s=options.budget_s,
            window_s=options.window_s,
            waiting=str(waiting),
            parent_lock=str(self.directory / "parent_lock"),
        ).write(self._files(mode)[0])
        try:
            return run_process(
                argv, timeout_s=options.timeout_s + KILL_MARGIN_S, env=worker_environment(os.environ), paused=waiting.exists
            )
        except OSError as error:
            raise MachineError(
                f"{argv[0]} cannot be started ({error.strerror})", "`ioaware doctor` checks the tools."
            ) from error

    def _report(self, mode: Mode, finished: Finished) -> Report:
        """Return the worker's report.

        User errors are raised again; a crash becomes a `_PointError` with its last output.
        """
        try:
            report = Report.read(self._files(mode)[1])
        except DataError as error:
            raise _PointError(str(error)) from error
        if report is not None and report.error is None:
            return report
        if report is not None:
            report.raise_user_error()
        tail = scrub(finished.stderr)[-TAIL_CHARACTERS:].strip()
        why = (
            f"{report.error['kind']}: {report.error['what']}"
            if report and report.error
            else f"the worker {finished.how}, without a report"
        )
        raise _PointError("\n".join(filter(None, (f"{mode}: {scrub(why)}", tail))))


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's environment.

    In it this package is importable, and compiled kernels, NVML's GPU order and the C locale are set.
    """
    package_root = str(Path(__file__).parents[2])
    ours = {
        "PYTHONPATH": os.pathsep.join(filter(None, (package_root, environ.get("PYTHONPATH")))),
        "LC_ALL": "C.UTF-8",
        "CUDA_DEVICE_ORDER": environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    }
    return {**{name: value for name, value in environ.items() if name != "TRITON_INTERPRET"}, **ours}


def _read_log(path: Path) -> str:
    """Read ncu's log, one character beyond the reader's limit.

    With that the reader refuses a longer one.
    """
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            return file.read(MAX_CHARACTERS + 1)
    except FileNotFoundError:
        return ""


def _compulsory(target: str, params: Mapping[str, Any]) -> Traffic | None:
    """Return the compulsory bytes of a case; None for a target without a case."""
    from ioaware.cases import CASES

    if target not in CASES:
        return None
    from ioaware.prediction import predict

    return predict(target, **params).compulsory
