"""The papers' headline tables beside the exact counts of this package.

What was not measured says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ioaware.display.units import significant
from ioaware.prediction import predict
from ioaware.report.pages.target_page import cell, columns
from ioaware.result import ParamValue

SHAPE: dict[str, ParamValue] = {"batch": 64, "heads": 16, "seq_len": 1024, "head_dim": 64}
"""GPT-2 medium at N = 1024: FlashAttention (arXiv 2205.14135), Figure 2, left."""
ON_CHIP = 96 * 1024
"""M in elements of 2 bytes: 192 KB an SM of an A100."""
NOT_MEASURED = "not measured yet"


@dataclass(frozen=True, slots=True)
class Printed:
    """A column of the paper's table, on an A100.

    It gives GFLOPs, GB between HBM and chip, and ms, forward and backward.
    """

    name: str
    cases: tuple[str, str]
    gflops: float
    gbytes: float
    ms: float


PRINTED = (
    Printed("standard", ("standard", "standard_bwd"), 66.6, 40.3, 41.7),
    Printed("FlashAttention", ("flash1", "flash1_bwd"), 75.2, 4.4, 7.3),
)
TRAINING = (
    ("GPT-2 small", "Hugging Face 9.5 days, Megatron-LM 4.7, FlashAttention 2.7"),
    ("GPT-2 medium", "Hugging Face 21.0 days, Megatron-LM 11.5, FlashAttention 6.9"),
)
COLUMNS = columns("exact count here", "H200", words=("quantity", "attention", "paper, A100"))


def headline_rows() -> list[list[dict[str, Any]]]:
    """Return the rows of Figure 2 (left), then those of the training tables."""
    rows: list[list[dict[str, Any]]] = []
    for printed in PRINTED:
        gflops, gbytes = counted(printed)
        rows.append(_row("GFLOP", printed.name, printed.gflops, gflops))
        rows.append(_row("GB moved", printed.name, printed.gbytes, gbytes))
        rows.append([cell("ms"), cell(printed.name), cell(printed.ms), cell("no model of time"), cell(NOT_MEASURED)])
    for model, days in TRAINING:
        rows.append([cell("training"), cell(model), cell(days), cell("tokens/s, not days"), cell(NOT_MEASURED)])
    return rows


def counted(printed: Printed) -> tuple[float, float]:
    """Return GFLOP and GB of forward and backward by the closed forms.

    The flash blocks are those of `ON_CHIP`.
    """
    params: dict[str, Any] = SHAPE | ({"sram_elements": ON_CHIP} if printed.name == "FlashAttention" else {})
    both = [predict(case, **params) for case in printed.cases]
    moved = sum((one.requested.total_bytes or 0) for one in both if one.requested)
    return sum(one.flops or 0 for one in both) / 1e9, moved / 1e9


def heads_of_flops() -> float:
    """Return the heads that the table's FLOPs are of.

    Recomputing S adds 2 N² d FLOPs a head.
    """
    standard, flash = PRINTED
    n, d = int(SHAPE["seq_len"] or 0), int(SHAPE["head_dim"] or 0)
    return (flash.gflops - standard.gflops) * 1e9 / (2 * n * n * d)


def _row(quantity: str, name: str, printed: float, here: float) -> list[dict[str, Any]]:
    return [cell(quantity), cell(name), cell(printed, printed), cell(significant(here, 4), here), cell(NOT_MEASURED)]
