"""Print the records of the benches of several GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ioaware.bench.multi_gpu.exchange_points import ExchangePoint
from ioaware.bench.multi_gpu.link_record import ExchangeEntry, ExchangeRecord
from ioaware.bench.statistics import paired_ratio, spread
from ioaware.cli.race_tables import where
from ioaware.cli.render import table
from ioaware.cli.terminal_text import printable
from ioaware.display.units import bytes_text, time_text

ONE_GPU = "one GPU"
COLUMNS = ("", "", "time", "spread", "of P GPUs", "error", "expected", "payload", "raw", "payload/expected", "raw/expected")


def exchange_text(records: Sequence[ExchangeRecord]) -> Iterator[RenderableType]:
    """Yield the machine, a table of all entries, and reasons of failures."""
    if not records:
        return
    environment = records[0].environment
    yield Text(printable(f"{environment.get('gpus')} x {where(environment)}, nccl {environment.get('nccl')}"))
    yield Text("")
    yield table(COLUMNS, [row for record in records for row in _rows(record)], left=2)
    yield Text("")
    yield Text("bytes: received by the GPU that receives most, a call; ratios: received and sent by all GPUs")
    for record in records:
        for entry in record.entries:
            if entry.status != "ok":
                yield Text(printable(f"{place(record)}, {entry.name}: {entry.status}: {entry.reason}"))


def place(record: ExchangeRecord) -> str:
    """Return the point as a row's label."""
    if record.subject == "nvlink":
        return bytes_text(record.size("size_bytes"))
    return ExchangePoint.of(dict(record.point)).label


def _rows(record: ExchangeRecord) -> Iterator[list[str]]:
    for entry in record.entries:
        yield [place(record), entry.name, *_times(record, entry), *_moved(entry)]


def _times(record: ExchangeRecord, entry: ExchangeEntry) -> list[str]:
    error = "" if entry.relative_error is None else f"{entry.relative_error:.1e}"
    if not entry.times_ns:
        return ["" if entry.status == "ok" else entry.status, "", "", error]
    found = spread(entry.times_ns)
    share = share_of_gpus(record, entry)
    return [time_text(found.median), f"{100 * found.relative:.1f} %", "" if share is None else f"{100 * share:.1f} %", error]


def share_of_gpus(record: ExchangeRecord, entry: ExchangeEntry) -> float | None:
    """Return the rate over P times one GPU's; None without both times.

    It is the median of the rounds.
    """
    alone = record.entry(ONE_GPU)
    if alone is None or entry is alone or not alone.times_ns or not entry.times_ns:
        return None
    return paired_ratio(alone.times_ns, entry.times_ns).median / record.size("gpus")


def _moved(entry: ExchangeEntry) -> list[str]:
    expected = max((ends.received for ends in entry.expected), default=None)
    cells = ["" if expected is None else bytes_text(expected)]
    calls = entry.counted_calls
    for name in ("payload_received", "raw_received"):
        most = max((getattr(one, name) for one in entry.counted), default=None)
        cells.append("" if most is None or not calls else bytes_text(round(most / calls)))
    for raw in (False, True):
        ratio = entry.ratio(raw=raw)
        cells.append("" if ratio is None else f"{ratio:.5f}")
    return cells
