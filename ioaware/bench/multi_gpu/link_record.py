"""Read and write records of what several GPUs exchange, one JSON object per line.

A record is one point of a subject: attention at one size (`context-parallel`), or transfers of one size (`nvlink`). Each entry
is one way to do it, with its time in every round and the bytes that each GPU sent and received by NVML's counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ioaware.bench.bench_records import as_record, positive_numbers, read_records
from ioaware.measurement.nvlink import LinkBytes

SCHEMA = 1
Subject = Literal["context-parallel", "nvlink"]
SIZES: Mapping[Subject, tuple[str, ...]] = {
    "context-parallel": ("gpus", "batch", "heads", "kv_heads", "seq_len", "head_dim"),
    "nvlink": ("gpus", "size_bytes"),
}
"""The sizes that a point of each subject has."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Bytes that one GPU receives and sends in one call, by the closed form."""

    received: int
    sent: int


@dataclass(frozen=True, slots=True)
class ExchangeEntry:
    """One way to do the work of a point.

    `times_ns`: per call, one per round, of the slowest GPU. `counted`: what NVML counted on each GPU over `counted_calls`
    calls. `expected`: what each GPU exchanges in one call. `relative_error`: of the output, against one GPU's.
    """

    name: str
    status: Literal["ok", "wrong", "failed"]
    reason: str = ""
    times_ns: tuple[float, ...] = ()
    relative_error: float | None = None
    counted_calls: int = 0
    counted: tuple[LinkBytes, ...] = ()
    expected: tuple[Ends, ...] = ()

    def ratio(self, *, raw: bool = False) -> float | None:
        """Return counted over expected bytes; None where either is unknown.

        The bytes are those that all GPUs send and receive.
        """
        expected = self.counted_calls * sum(ends.received + ends.sent for ends in self.expected)
        if not expected or not self.counted:
            return None
        if raw:
            return sum(one.raw_sent + one.raw_received for one in self.counted) / expected
        return sum(one.payload_sent + one.payload_received for one in self.counted) / expected


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    """One point: its entries, the bytes of idle links, clocks and the environment."""

    subject: Subject
    point: Mapping[str, int | bool | str]
    entries: tuple[ExchangeEntry, ...]
    idle_s: float = 0.0
    idle: tuple[LinkBytes, ...] = ()
    telemetry: tuple[Mapping[str, Any], ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def entry(self, name: str) -> ExchangeEntry | None:
        """Return the entry of this name."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def size(self, name: str) -> int:
        """Return a size of the point. Raises ValueError unless it is a positive integer."""
        value = self.point.get(name)
        if type(value) is not int or value <= 0:
            raise ValueError(f"the point's {name} is {value!r}, not a positive integer")
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return the record as in the file, without fields that are unknown."""
        entries = [
            {name: value for name, value in asdict(entry).items() if value not in (None, "", ())} for entry in self.entries
        ]
        return {"schema": SCHEMA, **asdict(self), "entries": entries}


def read_exchanges(path: Path) -> list[ExchangeRecord]:
    """Return every record of a file. Raises `DataError` naming the first invalid line."""
    return read_records(path, _parse, "an exchange between GPUs")


def _parse(data: dict[str, Any]) -> ExchangeRecord:
    if type(schema := data.pop("schema")) is not int or schema != SCHEMA:
        raise ValueError(f"not schema {SCHEMA}")
    record = as_record(data, ExchangeRecord)
    for name in SIZES[record.subject]:
        record.size(name)
    for entry in record.entries:
        positive_numbers(entry.times_ns)
    return record
