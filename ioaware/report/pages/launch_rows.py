"""The rows of a page's table of launches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from ioaware.display.units import count_text
from ioaware.report.pages.findings import Findings
from ioaware.report.pages.known_hbm import range_text
from ioaware.report.table_cells import bytes_shown, cell, columns, share_text, time_shown
from ioaware.result import Launch

LAUNCH_COLUMNS = [
    {"name": "#", "number": True},
    {"name": "kernel", "number": False},
    {"name": "grid", "number": False},
    *columns(
        "reads",
        "writes",
        "atomics",
        "HBM, simulated",
        "FLOPs",
        "at least, bound by",
        "share",
        "shared memory",
        "registers",
    ),
    {"name": "exact", "number": False},
]


def launch_rows(found: Findings, *, ordered: bool) -> Iterator[list[dict[str, Any]]]:
    """Yield the launches in order, or by bytes."""
    whole = found.launch_by_launch_ns  # no share of an unknown whole
    simulated = zip(found.launch_hbm, found.launch_hbm_ranges, strict=True)
    rows = list(zip(count(1), found.derived.launches, simulated, found.launch_bounds, strict=False))
    if not ordered:
        rows.sort(key=lambda row: -((row[1].requested and row[1].requested.total_bytes) or 0))
    for number, own, (hbm, ends), bound in rows:
        moved, least, hbm_bytes = own.requested, bound.time_ns, hbm.total_bytes if hbm else None
        triton = own.origin == "triton"
        hbm_text = range_text(*ends) if ends and not hbm else bytes_shown(hbm_bytes) if hbm or triton else ""
        share = least / whole if least is not None and whole else None
        yield [
            cell(number, number),
            cell(own.kernel + ("" if triton else " (torch)")),
            cell("\u00a0×\u00a0".join(map(str, own.grid))),
            *(cell(bytes_shown(part), part) for part in ((moved.read_bytes, moved.write_bytes) if moved else (None, None))),
            cell(_atomics(own), moved and moved.atomic_bytes),
            cell(hbm_text, hbm_bytes),
            cell(count_text(own.flops) if own.flops else "", own.flops or None),
            cell(f"{time_shown(least)}, {bound.binds}" if least else "", least),
            cell("" if share is None else share_text(share), share),
            cell("" if own.shared_bytes is None else bytes_shown(own.shared_bytes), own.shared_bytes),
            cell("" if own.registers is None else own.registers, own.registers),
            cell("yes" if own.exact else "no" if triton else "assumed"),
        ]


def _atomics(launch: Launch) -> str:
    """Return the operands' bytes; blank where there is no atomic."""
    moved = launch.requested.atomic_bytes if launch.requested else None
    return bytes_shown(moved) if moved or (moved is None and launch.origin == "triton") else ""
