"""Summarise records of training: rates, and distances of loss curves."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from ioaware.bench.training.training_record import TrainingRecord


def tokens_per_second(record: TrainingRecord, attention: str) -> float | None:
    """Return the tokens per second at the median step, or None where it did not run."""
    entry = record.entry(attention)
    if entry is None or not entry.step_ns:
        return None
    return record.point.tokens / (statistics.median(entry.step_ns) * 1e-9)


def largest_loss_difference(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest relative difference of two curves, over their steps."""
    return max(abs(a - b) / b for a, b in zip(one, other, strict=True))


def curve_sentences(records: Sequence[TrainingRecord]) -> Iterator[str]:
    """Yield the distance of each curve from SDPA's, and of two seeds."""
    for record in records:
        base = _curve(record, "sdpa")
        for entry in record.entries:
            if base and entry.losses and entry.attention != "sdpa":
                apart = largest_loss_difference(entry.losses, base)
                ends = f"{entry.attention} ends at {entry.losses[-1]:.4f}, SDPA at {base[-1]:.4f}"
                yield f"{record.point.label}: {ends}; at most {100 * apart:.2f} % apart"
    curves = [_curve(record, "sdpa") for record in records]
    if len(curves) > 1 and curves[0] and curves[1]:
        yield f"SDPA with another seed: at most {100 * largest_loss_difference(curves[1], curves[0]):.2f} % apart"


def _curve(record: TrainingRecord, attention: str) -> tuple[float, ...]:
    entry = record.entry(attention)
    return entry.losses if entry else ()
