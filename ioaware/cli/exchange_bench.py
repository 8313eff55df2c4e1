"""Run the benches of several GPUs, store and print their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ioaware.cli import exit_codes
from ioaware.cli.output import emit, progress
from ioaware.errors import MachineError, UsageError

if TYPE_CHECKING:
    from ioaware.bench.multi_gpu.link_record import ExchangeRecord, Subject

IDLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Choices:
    """What the options say; empty means the default."""

    passes: tuple[str, ...]
    seq_lens: tuple[int, ...]
    head_dims: tuple[int, ...]
    heads: int | None
    kv_heads: int | None
    causal: bool
    dtype: str
    names: tuple[str, ...]
    rounds: int
    count: bool


def bench_exchanges(subject: str, gpus: int | None, choices: Choices, *, as_json: bool, output: Path | None) -> int:
    """Run the points that are not in `output` yet; return the exit code."""
    import torch

    from ioaware.bench.bench_records import append_record, check_same_run, read_known
    from ioaware.bench.multi_gpu.launch_ranks import Ranks, measured_records, shown_point
    from ioaware.bench.multi_gpu.link_record import read_exchanges

    found = torch.cuda.device_count()
    ranks = gpus or found
    if found < max(ranks, 2):
        raise MachineError(
            f"bench {subject} needs {max(ranks, 2)} GPUs, torch sees {found}", "Run it on a host with that many."
        )
    points, order = _order(subject, ranks, choices)
    before = [record for record in read_known(output, read_exchanges) if record.subject == subject] if output else []
    done = [dict(record.point) for record in before]
    left = [point for point in points if shown_point(point, ranks) not in done]
    records: list[ExchangeRecord] = []
    if left:
        order |= {"subject": subject, "rounds": choices.rounds, "idle_s": IDLE_S, "points": left}
        with Ranks(order, ranks) as started:
            environment = started.next()[0]["environment"]
            check_same_run(output, before, environment)
            for record in measured_records(cast("Subject", subject), left, started, environment, idle_s=IDLE_S):
                if output:
                    append_record(output, record)
                records.append(record)
                progress(f"{len(records)}/{len(left)} {_label(record)}")
    from ioaware.cli.tables.exchange_tables import exchange_text

    everything = [*before, *records]
    emit(lambda: _data(subject, everything), lambda: exchange_text(everything), as_json=as_json)
    return _exit_code(everything)


def _order(subject: str, ranks: int, choices: Choices) -> tuple[list[Any], dict[str, Any]]:
    """Return the points as the ranks take them, and what holds for all of them."""
    from ioaware.bench.multi_gpu.exchange_points import SIZES, exchange_grid

    if subject == "nvlink":
        return list(SIZES), {}
    if len(choices.head_dims) > 1:
        raise UsageError("bench context-parallel takes one --head-dim", "Run it once for each.")
    from ioaware.bench.multi_gpu.rank_attention import NAMES

    unknown = [name for name in choices.names if name not in NAMES]
    if unknown:
        raise UsageError(f"--backends {unknown[0]}: there is no such back end", f"Back ends: {', '.join(NAMES)}.")
    heads = choices.heads or 32
    points = exchange_grid(
        ranks,
        choices.passes,
        choices.seq_lens,
        heads,
        choices.kv_heads or heads,
        choices.head_dims[0] if choices.head_dims else 128,
        choices.dtype,
        causal=choices.causal,
    )
    return [point.to_dict() for point in points], {"names": choices.names or NAMES, "count": choices.count}


def _label(record: ExchangeRecord) -> str:
    from ioaware.bench.multi_gpu.exchange_points import ExchangePoint

    if record.subject == "nvlink":
        return f"{record.size('size_bytes')} bytes"
    return ExchangePoint.of(dict(record.point)).label


def _data(subject: str, records: Sequence[ExchangeRecord]) -> Mapping[str, Any]:
    return {"schema": 1, "bench": subject, "points": [record.to_dict() for record in records]}


def _exit_code(records: Sequence[ExchangeRecord]) -> int:
    """Return the exit code by the results of everything but torch's."""
    statuses = {entry.status for record in records for entry in record.entries if not entry.name.startswith("torch")}
    if "wrong" in statuses:
        return exit_codes.FAILS
    return exit_codes.INCONCLUSIVE if "failed" in statuses else exit_codes.OK
