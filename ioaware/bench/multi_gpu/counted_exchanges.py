"""Counters of NVLink as evidence for theory.

They are those of records, or of this machine's GPUs now.
"""

from __future__ import annotations

from collections.abc import Iterable

from ioaware.analysis.theory.claims.evidence import CountedExchange
from ioaware.bench.multi_gpu.exchange_points import METHODS, ExchangePoint, exchange_grid
from ioaware.bench.multi_gpu.launch_ranks import Ranks, measured_records
from ioaware.bench.multi_gpu.link_record import ExchangeRecord
from ioaware.params import ELEMENT_BYTES

SEQ_LEN = 16384


def counted_exchanges(records: Iterable[ExchangeRecord], where: str) -> list[CountedExchange]:
    """Return the counters of this project's entries with right outputs."""
    found: list[CountedExchange] = []
    for record in records:
        if record.subject != "context-parallel":
            continue
        point = ExchangePoint.of(dict(record.point))
        for entry in record.entries:
            if entry.name in METHODS and entry.status == "ok" and entry.counted:
                payload = tuple((gpu.payload_received, gpu.payload_sent) for gpu in entry.counted)
                place = f"{point.gpus} x {record.environment.get('gpu')}, {where}"
                found.append(
                    CountedExchange(
                        entry.name,
                        point.direction,
                        point.problem(entry.name),
                        ELEMENT_BYTES[point.dtype],
                        entry.counted_calls,
                        payload,
                        place,
                    )
                )
    return found


def count_here(gpus: int) -> list[CountedExchange]:
    """Run each method on this machine's GPUs, and return what they counted.

    Raises `MachineError` where a GPU is in use or has no such counters.
    """
    points = [point.to_dict() for point in exchange_grid(gpus, (), (SEQ_LEN,), 32, 32, 128, "bfloat16", causal=False)]
    order = {"subject": "context-parallel", "rounds": 0, "idle_s": 0.0, "points": points, "names": [*METHODS], "count": True}
    with Ranks(order, gpus) as started:
        environment = started.next()[0]["environment"]
        records = list(measured_records("context-parallel", points, started, environment, idle_s=0.0))
    return counted_exchanges(records, "now")
