"""Run the points of `ioaware bench training`: steps interleaved, and loss curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ioaware.bench.interleaving import race
from ioaware.bench.run import telemetry
from ioaware.bench.training.gpt2_trainer import ATTENTIONS, MakeTrainer, Trainer
from ioaware.bench.training.training_record import TrainingEntry, TrainingPoint, TrainingRecord
from ioaware.measurement.nvml import Gpu, Snapshot

TOKENS = 8192
"""Tokens of a step: a batch of 8 at a context of 1,024."""
WARM_UP_STEPS = 3
LOSS_TOLERANCE = 1e-2
"""Relative error of a loss against float32; bfloat16 has 8 bits."""
LOSS_SEEDS = (0, 1)


@dataclass(frozen=True)
class TrainingSession:
    """What all points share: the GPU, its processes of this run, and the environment."""

    gpu: Gpu
    own_processes: frozenset[int]
    environment: Mapping[str, Any]


def training_points(models: Sequence[str], seq_lens: Sequence[int], loss_steps: int) -> list[TrainingPoint]:
    """Return the points: the speed of each model and context, then loss curves.

    The curves are of the first model at the first context, for two seeds.
    """
    speed = [TrainingPoint("speed", model, n, max(1, TOKENS // n)) for model in models for n in seq_lens]
    model, n = models[0], seq_lens[0]
    curves = [TrainingPoint("loss", model, n, max(1, TOKENS // n), seed) for seed in LOSS_SEEDS]
    return [*speed, *curves] if loss_steps else speed


def run_training(
    point: TrainingPoint, session: TrainingSession, make: MakeTrainer, *, rounds: int, loss_steps: int
) -> TrainingRecord:
    """Measure one point.

    An attention that fails, for example by memory, becomes an entry with the reason.
    """
    snapshots: list[Snapshot] = []
    if point.kind == "speed":
        entries = _speed(point, make, session, snapshots, rounds)
    else:
        entries = [_curve(point, make, name, loss_steps) for name in ATTENTIONS]
    seen = telemetry(session.gpu, snapshots, session.own_processes) if snapshots else {}
    return TrainingRecord(point, tuple(entries), seen, session.environment)


class StepClock:
    """Time steps of training by CUDA events, NVML snapshots in between."""

    def __init__(self, trainer: Trainer, gpu: Gpu, snapshots: list[Snapshot]) -> None:
        self.trainer, self.gpu, self.snapshots = trainer, gpu, snapshots

    def queue(self, name: str) -> Callable[[], float]:
        """Start a step; return a function for its nanoseconds."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.trainer.use(name)
        start.record()
        self.trainer.step()
        end.record()
        return lambda: start.elapsed_time(end) * 1e6

    def snapshot(self) -> None:
        """Take an NVML snapshot."""
        self.snapshots.append(self.gpu.snapshot())

    def synchronize(self) -> None:
        """Wait for the queued steps."""
        torch.cuda.synchronize()


def _speed(
    point: TrainingPoint, make: MakeTrainer, session: TrainingSession, snapshots: list[Snapshot], rounds: int
) -> list[TrainingEntry]:
    """Return the entries of interleaved steps on one model."""
    trainer = make(point)
    checked = [_warm_up(trainer, name) for name in ATTENTIONS]
    able = [entry.attention for entry in checked if entry.status == "ok"]
    clock = StepClock(trainer, session.gpu, snapshots)
    times = race(able, rounds, clock) if able else {}
    return [
        TrainingEntry(
            entry.attention,
            entry.status,
            entry.reason,
            tuple(times.get(entry.attention, ())),
            loss_error=entry.loss_error,
            peak_bytes=entry.peak_bytes,
        )
        for entry in checked
    ]


def _warm_up(trainer: Trainer, name: str) -> TrainingEntry:
    """Check the loss of an attention and make a few steps, the last for its memory."""
    error, reason = 0.0, ""
    try:
        error = trainer.loss_error(name)
        for _ in range(WARM_UP_STEPS):
            torch.cuda.reset_peak_memory_stats()
            trainer.step()
        torch.cuda.synchronize()
    except torch.OutOfMemoryError:
        reason = "out of memory"
    except Exception as failure:
        reason = _reason(failure)
    if reason:  # here, and not in the handler: the exception keeps activations alive
        trainer.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        return TrainingEntry(name, "failed", reason)
    status = "ok" if error <= LOSS_TOLERANCE else "wrong"
    reason = "" if status == "ok" else f"its loss is {error:.3g} off float32's"
    peak = torch.cuda.max_memory_allocated()
    return TrainingEntry(name, status, reason, loss_error=error, peak_bytes=peak)


def _curve(point: TrainingPoint, make: MakeTrainer, name: str, steps: int) -> TrainingEntry:
    """Train a model of its own and return the loss of each step."""
    try:
        trainer = make(point)
        trainer.use(name)
        losses = [trainer.step() for _ in range(steps)]
        return TrainingEntry(name, "ok", losses=tuple(float(loss) for loss in losses))
    except Exception as failure:
        return TrainingEntry(name, "failed", _reason(failure))


def _reason(failure: Exception) -> str:
    return f"{type(failure).__name__}: {str(failure)[:300]}"
