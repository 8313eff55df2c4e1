"""Run `ioaware bench training`, and print its tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware.cli import exit_codes
from ioaware.cli.output import emit, progress
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.bench.training.training_record import TrainingRecord

MODELS, CONTEXTS = ("small", "medium"), (1024, 2048, 4096)


def bench_training(
    models: Sequence[str],
    seq_lens: Sequence[int],
    rounds: int,
    loss_steps: int,
    seconds: float | None,
    *,
    as_json: bool,
    output: Path | None,
) -> int:
    """Measure each model at each context, then the loss curves; print tables or JSON.

    Records are appended to `output` as they come; points that are there are not measured again. Returns the exit code.
    """
    from ioaware.bench.bench_records import append_record, check_same_run, read_known
    from ioaware.bench.gpu_setup import here
    from ioaware.bench.training.gpt2_trainer import SIZES, Trainer
    from ioaware.bench.training.training_record import read_training
    from ioaware.bench.training.training_run import TrainingSession, run_training, training_points
    from ioaware.environment import installed_version
    from ioaware.measurement.gpu_lock import gpu_lease
    from ioaware.measurement.nvml import load_nvml, open_gpu

    for model in models:
        if model not in SIZES:
            raise UsageError(f"there is no GPT-2 {model!r} here", f"Models: {', '.join(MODELS)}.")
    before = read_known(output, read_training) if output else []
    began = time.monotonic()
    gpu = open_gpu(load_nvml())
    environment = here(gpu) | {"transformers": installed_version("transformers")}
    check_same_run(output, before, environment)
    points = training_points(models or MODELS, seq_lens or CONTEXTS, loss_steps)
    records = [record for record in before if record.point in points]
    known = {record.point for record in records}
    with gpu_lease(gpu.limits.uuid, timeout_s=60):
        others = set(gpu.processes())
        for point in points:
            if point in known:
                continue
            if seconds is not None and time.monotonic() - began > seconds:
                progress(f"{seconds:g} s are over: {len(points) - len(records)} of {len(points)} points left")
                break
            session = TrainingSession(gpu, frozenset(set(gpu.processes()) - others), environment)
            record = run_training(point, session, Trainer, rounds=rounds, loss_steps=loss_steps)
            records.append(record)
            if output:
                append_record(output, record)
            progress(f"{len(records)} of {len(points)}: {point.label}")
    emit(lambda: _data(records), lambda: _text(records), as_json=as_json)
    return _exit_code(records)


def _exit_code(records: Sequence[TrainingRecord]) -> int:
    """Return the exit code by the results of ioaware's attention."""
    statuses = {entry.status for record in records if (entry := record.entry("ioaware"))}
    if "wrong" in statuses:
        return exit_codes.FAILS
    return exit_codes.INCONCLUSIVE if "failed" in statuses or not statuses else exit_codes.OK


def _data(records: Sequence[TrainingRecord]) -> dict[str, Any]:
    return {"schema": 1, "bench": "training", "points": [record.to_dict() for record in records]}


def _text(records: Sequence[TrainingRecord]) -> Iterator[RenderableType]:
    """Yield the machine, step times, and how far the losses are apart."""
    from rich.text import Text

    from ioaware.bench.training.training_summary import curve_sentences
    from ioaware.bench.training.training_text import TEXT
    from ioaware.cli.race_tables import where
    from ioaware.cli.render import table
    from ioaware.cli.terminal_text import printable

    if not records:
        return
    yield Text(printable(where(records[0].environment)))
    yield Text(f"\nrandom weights, AdamW, bfloat16 by autocast, no dropout; text: {TEXT}")
    columns = ["model, context, batch", "attention", "ms a step", "tokens/s", "x SDPA", "peak memory", "loss error"]
    yield table(columns, (row for record in records if record.point.kind == "speed" for row in _rows(record)), left=2)
    for line in curve_sentences([record for record in records if record.point.kind == "loss"]):
        yield Text(line)


def _rows(record: TrainingRecord) -> Iterator[list[str]]:
    """Yield a row for each attention of a point; the reason where it did not run."""
    from statistics import median

    from ioaware.bench.statistics import paired_ratio
    from ioaware.bench.training.training_summary import tokens_per_second
    from ioaware.display.units import bytes_text

    point, other = record.point, record.entry("sdpa")
    for entry in record.entries:
        name = f"{point.model}, {point.seq_len:,}, {point.batch}"
        if not entry.step_ns:
            yield [name, entry.attention, f"{entry.status}: {entry.reason}", "", "", "", ""]
            continue
        faster = paired_ratio(other.step_ns, entry.step_ns).median if other and other.step_ns else None
        yield [
            name,
            entry.attention,
            f"{median(entry.step_ns) / 1e6:.2f}",
            f"{tokens_per_second(record, entry.attention) or 0:,.0f}",
            "" if faster is None else f"{faster:.3f}",
            bytes_text(entry.peak_bytes),
            "" if entry.loss_error is None else f"{entry.loss_error:.1e}",
        ]
