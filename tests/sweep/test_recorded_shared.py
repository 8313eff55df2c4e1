"""Counted accesses of the softmax family to shared memory, and their page."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.analysis.theory.claims.io.softmax_accesses import REDUCTIONS, shared_accesses
from ioaware.measurement.counters.l1_counters import (
    SHARED_LOAD_CYCLES,
    SHARED_LOAD_WAVEFRONTS,
    SHARED_LOADS,
    SHARED_LOADS_ISSUED,
    SHARED_STORE_CYCLES,
    SHARED_STORE_WAVEFRONTS,
    SHARED_STORES,
    SHARED_STORES_ISSUED,
)
from ioaware.result import BYTES_HOLD, Result
from ioaware.sweep.claim_evidence import recorded_shared

EXACT = (SHARED_LOADS, SHARED_STORES, SHARED_LOAD_WAVEFRONTS, SHARED_STORE_WAVEFRONTS)
RECORDS = recorded_shared()
PAGE = (Path(__file__).parents[2] / "docs" / "results" / "systems.md").read_text(encoding="utf-8")


def predicted(record: Result) -> int:
    rows, cols, block = (int(record.params.get(name) or 0) for name in ("rows", "cols", "block_n"))
    return shared_accesses(record.target, rows, cols, block or cols)


def counted(record: Result, counter: str) -> int:
    return sum((launch.counters or {})[counter] for launch in record.launches)


def test_every_softmax_is_recorded_once() -> None:
    assert sorted(record.target for record in RECORDS) == sorted(REDUCTIONS)
    for record in RECORDS:
        assert record.environment is not None
        assert "dirty" not in record.environment["commit"]
        assert record.status in BYTES_HOLD


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.target)
def test_counted_instructions_are_those_of_the_reductions(record: Result) -> None:
    """To the instruction by added code; the hardware's counters have more."""
    assert [counted(record, counter) for counter in EXACT] == [predicted(record)] * len(EXACT)
    for counter in (SHARED_LOADS_ISSUED, SHARED_STORES_ISSUED, SHARED_LOAD_CYCLES):
        assert predicted(record) <= counted(record, counter) <= 1.02 * predicted(record)
    assert predicted(record) <= counted(record, SHARED_STORE_CYCLES) <= 1.05 * predicted(record)
    assert counted(record, SHARED_LOADS_ISSUED) == pytest.approx(counted(record, SHARED_STORES_ISSUED), rel=0.0025)


def test_the_page_has_the_counts() -> None:
    columns = (SHARED_LOADS_ISSUED, SHARED_STORES_ISSUED, SHARED_LOAD_CYCLES, SHARED_STORE_CYCLES)
    for record in RECORDS:
        cells = [predicted(record), counted(record, SHARED_LOADS), *(counted(record, counter) for counter in columns)]
        assert f"| `{record.target}` | " + " | ".join(f"{count:,}" for count in cells) + " |" in PAGE
