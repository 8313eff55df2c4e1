"""Read and write records of `ioaware bench training`, one JSON object per line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ioaware import strict_json
from ioaware._atomic_file import append_line
from ioaware.errors import DataError

SCHEMA = 1
MAX_BYTES = 64 * 2**20
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


def append_training(path: Path, record: TrainingRecord) -> None:
    """Append a line, durable on return. Raises `WriteError` when it cannot be written."""
    append_line(path, strict_json.dumps(record.to_dict()))


def read_training(path: Path) -> Sequence[TrainingRecord]:
    """Return every record of a file. Raises `DataError` naming the first invalid line."""
    return [_parse(line, f"{path}:{number}") for number, line in strict_json.read_lines(path, MAX_BYTES)]


def _parse(line: bytes, where: str) -> TrainingRecord:
    import msgspec

    try:
        data: dict[str, Any] = msgspec.convert(strict_json.loads(line), dict[str, Any])
        if (data.pop("schema", None), data.pop("bench", None)) != (SCHEMA, "training"):
            raise ValueError(f"not schema {SCHEMA} of the bench of training")
        record = msgspec.convert(data, TrainingRecord)
        if any((entry.status == "ok") != bool(entry.step_ns or entry.losses) for entry in record.entries):
            raise ValueError("times and losses belong to entries that are ok, and to no others")
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{where}: not a record of the bench ({str(error)[:200]})", "Run the bench again.") from error
    return record
