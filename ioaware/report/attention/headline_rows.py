"""The papers' headline tables beside exact counts and an H200's counters.

What was not measured says so.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.counts.standard import idealised
from ioaware.analysis.theory.counts.standard_backward import idealised as idealised_backward
from ioaware.bench.training.training_record import TrainingRecord
from ioaware.display.units import significant
from ioaware.measurement.time_bounds import with_bounds
from ioaware.prediction import predict
from ioaware.report.table_cells import cell, columns
from ioaware.result import BYTES_HOLD, ParamValue, Result

SHAPE: dict[str, ParamValue] = {"batch": 64, "heads": 16, "seq_len": 1024, "head_dim": 64}
"""GPT-2 medium at N = 1024: FlashAttention (arXiv 2205.14135), Figure 2, left."""
ON_CHIP = 96 * 1024
"""M in elements of 2 bytes: 192 KB an SM of an A100."""
NOT_MEASURED = "not measured yet"
OWN = "ioaware.kernels.attention.targets"


@dataclass(frozen=True, slots=True)
class Printed:
    """A column of the paper's table, on an A100.

    It gives GFLOPs, GB between HBM and chip, and ms, forward and backward. None where the table has no such column.
    """

    name: str
    cases: tuple[str, str]
    gflops: float | None = None
    gbytes: float | None = None
    ms: float | None = None


PRINTED = (
    Printed("standard", ("standard", "standard_bwd"), 66.6, 40.3, 41.7),
    Printed("FlashAttention", ("flash1", "flash1_bwd"), 75.2, 4.4, 7.3),
)
BEYOND = (
    Printed("FlashAttention-2", ("flash2", "flash2_bwd")),
    Printed("this package's own", (f"{OWN}:hopper", f"{OWN}:hopper_backward")),
)
"""Not in the paper's table."""
TRAINING = {
    "small": "Hugging Face 9.5 days, Megatron-LM 4.7, FlashAttention 2.7",
    "medium": "Hugging Face 21.0 days, Megatron-LM 11.5, FlashAttention 6.9",
}
COLUMNS = columns("paper, A100", "exact count here", "H200", words=("quantity", "attention"))
TRAINING_COLUMNS = columns(
    "tokens/s", "ms a step", "× SDPA", "peak memory", "loss error", words=("GPT-2", "attention", "paper, A100")
)


def headline_rows(measured: Sequence[Result] = ()) -> list[list[dict[str, Any]]]:
    """Return the rows of Figure 2 (left), from the records at its shape."""
    rows: list[list[dict[str, Any]]] = []
    for printed in PRINTED:
        gflops, gbytes = counted(printed)
        rows.append(_row("GFLOP", printed, printed.gflops, gflops, None, "no counter"))
        moved = hbm_gbytes(printed, measured)
        rows.append(_row("GB moved", printed, printed.gbytes, gbytes, moved, _forward_alone(printed, measured)))
        rows.append(_time_row(printed, measured))
    for printed in BEYOND:
        rows.append(_row("GB moved", printed, None, None, hbm_gbytes(printed, measured)))
        rows.append(_time_row(printed, measured))
    return rows


def counted(printed: Printed) -> tuple[float, float]:
    """Return GFLOP and GB of forward and backward by the closed forms.

    The flash blocks are those of `ON_CHIP`.
    """
    params: dict[str, Any] = SHAPE | ({"sram_elements": ON_CHIP} if printed.name == "FlashAttention" else {})
    both = [predict(case, **params) for case in printed.cases]
    moved = sum((one.requested.total_bytes or 0) for one in both if one.requested)
    return sum(one.flops or 0 for one in both) / 1e9, moved / 1e9


def hbm_gbytes(printed: Printed, measured: Sequence[Result]) -> float | None:
    """Return counted GB between HBM and the L2, forward and backward."""
    moved = [one.hbm.total_bytes for one in _records(printed, measured) if one.hbm and one.status in BYTES_HOLD]
    return (
        sum(one for one in moved if one is not None) / 1e9 if len(moved) == len(printed.cases) and None not in moved else None
    )


def milliseconds(printed: Printed, measured: Sequence[Result]) -> float | None:
    """Return measured ms, forward and backward."""
    times = [one.time_ns for one in _records(printed, measured) if one.time_ns is not None and one.status == "ok"]
    return sum(times) / 1e6 if len(times) == len(printed.cases) else None


def least_time(printed: Printed, measured: Sequence[Result]) -> tuple[float, str] | None:
    """Return the least ms of forward and backward on the measured GPU, and what binds.

    It follows from the FLOPs and the counted bytes. None where a pass is not recorded.
    """
    bounds = [with_bounds(one).time_bound for one in _records(printed, measured)]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(printed.cases):
        return None
    levels = dict.fromkeys(str(bound["binds"]) for bound in known)
    return sum(float(bound["time_ns"]) for bound in known) / 1e6, " and ".join(levels)


def _time_row(printed: Printed, measured: Sequence[Result]) -> list[dict[str, Any]]:
    row = _row("ms", printed, printed.ms, None, milliseconds(printed, measured), _why_no_time(printed, measured))
    least = least_time(printed, measured)
    row[3] = cell(NOT_MEASURED if least is None else f"at least {significant(least[0], 4)}, {least[1]}", least and least[0])
    return row


def _forward_alone(printed: Printed, measured: Sequence[Result]) -> str:
    """Return the GB of the forward pass where the backward pass is not recorded."""
    found = [one for one in _records(printed, measured) if one.target == printed.cases[0] and one.hbm]
    moved = found[0].hbm.total_bytes if found and found[0].hbm else None
    return NOT_MEASURED if moved is None else f"forward alone {significant(moved / 1e9, 4)}"


def _why_no_time(printed: Printed, measured: Sequence[Result]) -> str:
    """Return why a time is not shown: a power limit compares with nothing."""
    throttled = any(one.status == "throttled" for one in _records(printed, measured))
    return "throttled by the power limit" if throttled else NOT_MEASURED


def _records(printed: Printed, measured: Sequence[Result]) -> list[Result]:
    """Return the record of each case at the table's shape."""
    found = {one.target: one for one in measured if all(one.params.get(name) == size for name, size in SHAPE.items())}
    return [found[case] for case in printed.cases if case in found]


def heads_of_flops() -> float:
    """Return the heads that the table's FLOPs are of.

    Recomputing S adds 2 N² d FLOPs a head.
    """
    standard, flash = (printed.gflops or 0.0 for printed in PRINTED)
    n, d = int(SHAPE["seq_len"] or 0), int(SHAPE["head_dim"] or 0)
    return (flash - standard) * 1e9 / (2 * n * n * d)


def each_matrix_once_gbytes() -> float:
    """Return GB of standard attention, each matrix moved once per line.

    Forward and backward, in float16.
    """
    values = {"N": SHAPE["seq_len"], "N_k": SHAPE["seq_len"], "d": SHAPE["head_dim"], "e": 2}
    integers = {name: int(value or 0) for name, value in values.items()}
    both = (idealised(), idealised_backward())
    per_head = sum(evaluate(moved.bytes, integers) for counts in both for moved in (counts.reads, counts.writes))
    return per_head * int(SHAPE["batch"] or 0) * int(SHAPE["heads"] or 0) / 1e9


def _row(
    quantity: str, printed: Printed, paper: float | None, here: float | None, measured: float | None, why: str = NOT_MEASURED
) -> list[dict[str, Any]]:
    return [
        cell(quantity),
        cell(printed.name),
        cell("not in the table" if paper is None else paper, paper),
        cell("" if here is None else significant(here, 4), here),
        cell(why if measured is None else significant(measured, 4), measured),
    ]


def training_rows(records: Sequence[TrainingRecord]) -> list[list[dict[str, Any]]]:
    """Return the rows of GPT-2's training: each model, context and attention.

    Where nothing is recorded there is a row for each model that says so.
    """
    speeds = [record for record in records if record.point.kind == "speed"]
    if not speeds:
        return [
            [cell(f"{model}"), cell(""), cell(days), cell(NOT_MEASURED), *[cell("")] * 4] for model, days in TRAINING.items()
        ]
    return [row for record in speeds for row in _training_rows(record)]


def _training_rows(record: TrainingRecord) -> Iterator[list[dict[str, Any]]]:
    from ioaware.bench.statistics import paired_ratio
    from ioaware.report.table_cells import bytes_shown

    point, other = record.point, record.entry("sdpa")
    name, days = f"{point.model}, context {point.seq_len:,}", TRAINING.get(point.model, "") if point.seq_len == 1024 else ""
    for entry in record.entries:
        words = [cell(name), cell(entry.attention), cell(days)]
        if not entry.step_ns:
            yield [*words, cell(f"{entry.status}: {entry.reason}"), *[cell("")] * 4]
            continue
        step_ms = statistics.median(entry.step_ns) / 1e6
        rate = point.tokens / step_ms * 1e3
        ahead = paired_ratio(other.step_ns, entry.step_ns).median if other and other.step_ns else None
        yield [
            *words,
            cell(f"{rate:,.0f}", rate),
            cell(significant(step_ms, 4), step_ms),
            cell("" if ahead is None else f"{ahead:.3f}", ahead),
            cell(bytes_shown(entry.peak_bytes), entry.peak_bytes),
            cell("" if entry.loss_error is None else f"{entry.loss_error:.1e}", entry.loss_error),
        ]


def loss_sentences(records: Sequence[TrainingRecord]) -> list[str]:
    """Return how far the loss curves are apart, and how far those of two seeds are."""
    from ioaware.bench.training.training_summary import curve_sentences

    return list(curve_sentences([record for record in records if record.point.kind == "loss"]))
