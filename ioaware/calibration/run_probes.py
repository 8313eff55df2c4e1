"""Calibrate the first visible GPU.

Probes run under ncu, rates are taken by CUDA events, and the machine follows from both.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ioaware._atomic_file import atomic_write
from ioaware.calibration.fit import Calibration, Counted, calibrate
from ioaware.calibration.probes import PARENT_LOCK, Sizes, plan
from ioaware.environment import scrub, software_environment
from ioaware.errors import DataError, MachineError
from ioaware.measurement.counters.kernel_attribution import HBM_READS, HBM_WRITES, REQUESTED_READS, REQUESTED_WRITES
from ioaware.measurement.counters.ncu import Ncu, command, counters_refused, find_ncu, run_failed
from ioaware.measurement.counters.ncu_csv import MAX_CHARACTERS, Metric, Table, read_table
from ioaware.measurement.measure import worker_environment
from ioaware.measurement.nvml import NvmlLibrary, load_nvml, open_gpu
from ioaware.measurement.parent_watchdog import hold_parent_lock
from ioaware.measurement.subprocesses import Finished, run_process

METRICS = tuple(Metric(name, "byte") for name in (REQUESTED_READS, REQUESTED_WRITES, HBM_READS, HBM_WRITES))
RATES = (
    "hbm_read_bytes_per_s", "hbm_write_bytes_per_s", "hbm_copy_bytes_per_s", "hbm_triad_bytes_per_s",
    "l2_read_bytes_per_s", "l2_shared_read_bytes_per_s", "l2_matmul_read_bytes_per_s",
    "matmul_float16_flops_per_s", "matmul_bfloat16_flops_per_s", "drift",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The probes' calibration, the rates, the counters, and the place.

    The rates are measured and by name, and the place is where it was measured.
    """

    calibration: Calibration
    rates: Mapping[str, float]
    counted: tuple[Counted, ...]
    environment: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: every probe with its counters, and what follows from them."""
        return {**_probes(self.counted, self.rates, self.environment), "calibration": asdict(self.calibration)}


def calibrate_gpu(
    *,
    timeout_s: float = 300.0,
    probes_file: Path | None = None,
    python: str = sys.executable,
    ncu: Ncu | None = None,
    nvml: NvmlLibrary | None = None,
) -> Calibrated:
    """Run the probes on the first visible GPU, about a minute.

    `probes_file` gets every probe's counters and the rates as JSON, also where they are refused. Raises `MachineError` without
    a GPU or without counters, `DataError` for counters that are off by more than 1 %.
    """
    open_gpu(nvml or load_nvml())
    ncu = ncu or find_ncu()
    with tempfile.TemporaryDirectory(prefix="ioaware-") as directory, hold_parent_lock(Path(directory) / PARENT_LOCK):
        run = _Run(Path(directory), timeout_s, python)
        answer, table = run.under_ncu(ncu)
        timed = run.alone()
    sizes = Sizes(*answer["sizes"])
    probes = plan(sizes)
    if len(table.rows) != len(probes) or any(
        row.kernel != probe.kernel for row, probe in zip(table.rows, probes, strict=False)
    ):
        raise DataError(f"ncu profiled {len(table.rows)} kernels where the plan has {len(probes)}", "Run it again.")
    counted = tuple(
        Counted(probe, *(row.values[metric.name] for metric in METRICS)) for probe, row in zip(probes, table.rows, strict=True)
    )
    environment = {**timed["environment"], **software_environment(), "ncu": ncu.version_text}
    rates = {name: timed[name] for name in RATES}
    if probes_file:
        with atomic_write(probes_file) as place:
            place.write_text(json.dumps(_probes(counted, rates, environment), indent=1) + "\n", encoding="utf-8")
    return Calibrated(calibrate(counted, sizes), rates, counted, environment)


def _probes(counted: Sequence[Counted], rates: Mapping[str, float], environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return every probe with its counters, the rates and the place as JSON."""
    probes = [{**asdict(one.probe), **{k: v for k, v in asdict(one).items() if k != "probe"}} for one in counted]
    return {"schema": 1, "rates": dict(rates), "probes": probes, "environment": dict(environment)}


@dataclass(frozen=True, slots=True)
class _Run:
    """The two worker processes."""

    directory: Path
    timeout_s: float
    python: str

    def under_ncu(self, ncu: Ncu) -> tuple[dict[str, Any], Table]:
        log, out = self.directory / "ncu.csv", self.directory / "counters.json"
        finished = self._run(command(ncu, [metric.name for metric in METRICS], log, self._program("counters", out)))
        text = log.read_text(encoding="utf-8", errors="replace")[: MAX_CHARACTERS + 1] if log.exists() else ""
        problem = counters_refused(finished, text) or run_failed(finished, text)
        if problem:
            raise problem
        return self._answer(finished, out), read_table(text, METRICS)

    def alone(self) -> dict[str, Any]:
        out = self.directory / "rates.json"
        return self._answer(self._run(self._program("rates", out)), out)

    def _program(self, mode: str, out: Path) -> list[str]:
        return [self.python, "-m", "ioaware.calibration.on_gpu.probe_worker", mode, str(out)]  # watches PARENT_LOCK beside it

    def _run(self, argv: list[str]) -> Finished:
        try:
            return run_process(argv, timeout_s=self.timeout_s, env=worker_environment(os.environ))
        except OSError as error:
            raise MachineError(f"{argv[0]} cannot be started ({error.strerror})", "`ioaware doctor` checks it.") from error

    @staticmethod
    def _answer(finished: Finished, out: Path) -> dict[str, Any]:
        if finished.returncode or finished.timed_out or not out.exists():
            tail = scrub(finished.stderr)[-1500:].strip()
            raise MachineError(f"the probes failed: their process {finished.how}\n{tail}", "Leave the GPU to this process.")
        answer: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return answer
