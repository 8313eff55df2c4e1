"""Read and write records of `ioaware bench training`, one JSON object per line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ioaware.bench.bench_records import as_record, positive_numbers, read_records

SCHEMA = 1
Kind = Literal["speed", "loss"]
EntryStatus = Literal["ok", "wrong", "failed"]


@dataclass(frozen=True, slots=True)
class TrainingPoint:
    """A GPT-2, its context, the sequences of a step, and a seed.

    The seed is that of weights and data.

    "speed": steps of each attention are interleaved. "loss": each attention trains a model of its own.
    """

    kind: Kind
    model: str
    seq_len: int
    batch: int
    seed: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.batch * self.seq_len

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"GPT-2 {self.model}, context {self.seq_len:,}, {self.kind}" + f", seed {self.seed}" * (self.kind == "loss")


@dataclass(frozen=True, slots=True)
class TrainingEntry:
    """One attention at a point: nanoseconds of each step, or the loss of each step.

    `loss_error` is the loss of the first batch against the one in float32, relative. `peak_bytes` is torch's, of a step.
    """

    attention: str
    status: EntryStatus
    reason: str = ""
    step_ns: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    loss_error: float | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """One point: its entries, NVML telemetry, and the environment."""

    point: TrainingPoint
    entries: tuple[TrainingEntry, ...]
    telemetry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def entry(self, attention: str) -> TrainingEntry | None:
        """Return the entry of that attention."""
        return next((entry for entry in self.entries if entry.attention == attention), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as in the file."""
        return {"schema": SCHEMA, "bench": "training", **asdict(self)}


def read_training(path: Path) -> list[TrainingRecord]:
    """Return every record of a file. Raises `DataError` naming the first invalid line."""
    return read_records(path, _parse, "the bench")


def _parse(data: dict[str, Any]) -> TrainingRecord:
    if type(schema := data.pop("schema", None)) is not int or (schema, data.pop("bench", None)) != (SCHEMA, "training"):
        raise ValueError(f"not schema {SCHEMA} of the bench of training")
    record = as_record(data, TrainingRecord)
    if any((entry.status == "ok") != bool(entry.step_ns or entry.losses) for entry in record.entries):
        raise ValueError("times and losses belong to entries that are ok, and to no others")
    for entry in record.entries:
        positive_numbers((*entry.step_ns, *entry.losses))
    return record
