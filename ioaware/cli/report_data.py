"""Collect the report's data.

They are fresh predictions and traces, and live or recorded measurements.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ioaware.cli.progress import Step
from ioaware.result import Result
from ioaware.result_file import write_jsonl
from ioaware.sweep.runner import Outcome, SweepInterruptedError, run_study
from ioaware.sweep.store import Store
from ioaware.sweep.study import Study, find_study

if TYPE_CHECKING:
    from ioaware.report.figures.roofline import Roofs
    from ioaware.result import Status
    from ioaware.sweep.points import Point

THEORY = "forward"
MEASURED = "live"
DTYPE = "float16"
"""Dtype of the measured studies, for the peak in the roofline."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measured results; `live`: this run took them, `missing`: why not."""

    results: list[Result]
    live: bool
    missing: tuple[str, ...] = ()


def theory(step: Step) -> list[Result]:
    """Return fresh predictions and traces: a stored one could be of an older kernel."""
    with tempfile.TemporaryDirectory(prefix="ioaware-") as folder, Store(Path(folder) / "theory.db") as store:
        study = find_study(THEORY)
        try:
            _run(study, store, step)
        except SweepInterruptedError:
            raise KeyboardInterrupt from None  # nothing of it is kept
        return store.results(study.points)


def measurements(out_dir: Path, step: Step) -> Measurements:
    """Measure on this machine's GPU, or return the recorded measurements.

    Points go to `measured.db` while measuring, so that an interrupted report continues. At the end the records are in
    `measured.jsonl`, and the next report measures again.
    """
    from ioaware.sweep.claim_evidence import recorded_measurements
    from ioaware.sweep.gpu_name import gpu_name

    if gpu_name() == "no GPU":
        return Measurements(recorded_measurements(), live=False, missing=("no GPU here",))
    path = out_dir / "measured.db"
    with Store(path) as store:
        outcome = _run(find_study(MEASURED), store, step)
        if outcome.unavailable:
            return Measurements(recorded_measurements(), live=False, missing=tuple(outcome.unavailable.values()))
        results = store.results()
    write_jsonl(out_dir / "measured.jsonl", results)
    path.unlink()
    return Measurements(results, live=True)


def _run(study: Study, store: Store, step: Step) -> Outcome:
    def done(count: int, total: int, point: Point, status: Status) -> None:
        step(count, total, point.label if status == "ok" else f"{point.label}: {status}")

    return run_study(study, store, progress=done)


def roofs(measured: Sequence[Result]) -> Roofs | None:
    """Return the roofs of the GPU of all these results.

    None for several GPUs, or one without a preset.
    """
    from ioaware.machine import PRESETS
    from ioaware.report.figures.roofline import Roofs

    devices = {str((result.environment or {}).get("gpu")) for result in measured}
    for machine in PRESETS.values():
        if devices == {machine.device}:
            peak, hbm = machine.peak(DTYPE), machine.level("hbm")
            source = f"HBM: {hbm.bandwidth_source}; peak: {peak.source}"
            return Roofs(machine.name, machine.bandwidth_bytes_per_s("hbm"), peak.flops_per_s, source)
    return None
