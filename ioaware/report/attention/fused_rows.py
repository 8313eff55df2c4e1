"""Make the table of kernels that `ioaware fuse` writes: bytes and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioaware.report.table_cells import bound_cell, bytes_shown, cell, columns, time_shown
from ioaware.result import BYTES_HOLD, Result

COLUMNS = columns(
    "reads as written", "fused", "counted as written", "counted fused", "saved",
    "time as written", "at least, bound by", "time fused", "at least, bound by",
    words=("program",),
)  # fmt: skip
FLOAT32_BYTES = 4
READS = {"attention": (4, 2), "logsoftmax_attention": (4, 2), "entropy": (3, 1), "layer_norm_dot": (4, 2), "variance": (2, 1)}
"""Reads of [rows, cols] as each program is written, and with its combiner.

`ioaware fuse` finds them; the tests compare.
"""


def fused_rows(measured: Sequence[Result]) -> list[list[dict[str, Any]]]:
    """Return a row for each program that is recorded in both forms."""
    found = {
        (one.params["program"], one.params["form"]): one
        for one in measured
        if one.status in BYTES_HOLD and one.requested is not None and one.check is not None and one.check.passed
    }
    return [
        _row(program, found[program, "separate"], found[program, "fused"])
        for program in READS
        if {(program, "separate"), (program, "fused")} <= found.keys()
    ]


def matrix_bytes(result: Result) -> int:
    """Return the bytes of one input."""
    return FLOAT32_BYTES * int(result.params["rows"] or 0) * int(result.params["cols"] or 0)


def _row(program: str, written: Result, fused: Result) -> list[dict[str, Any]]:
    counted = [one.requested.read_bytes or 0 for one in (written, fused) if one.requested]
    saved = 1 - counted[1] / counted[0]
    return [
        cell(program),
        *(cell(f"{reads}", reads) for reads in READS[program]),
        *(cell(bytes_shown(one), one) for one in counted),
        cell(f"{100 * saved:.1f} %", saved),
        *(each for one in (written, fused) for each in (_time(one), bound_cell(one))),
    ]


def _time(result: Result) -> dict[str, Any]:
    time = result.time_ns if result.status == "ok" else None
    return cell(time_shown(time), time)
