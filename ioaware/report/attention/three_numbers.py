"""The three numbers on how well predictions agree with counters.

README, the agreement page and the report quote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ioaware.analysis.theory.claims.hardware import matches_algorithm
from ioaware.cases import CASES
from ioaware.display.units import percent_text
from ioaware.report.attention.recorded_bytes import Records, third_party_launches, totals
from ioaware.result import BYTES_HOLD, Result
from ioaware.simulation.accuracy import Row
from ioaware.sweep.claim_evidence import observe

NO_ROW = Row("all", "HBM reads", 0, 0.0, 0.0, 0.0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Predictions against counters, over all shipped records."""

    attention_points: int
    clear_points: int
    """Points of forward cases without possible L1 read hits or spilled registers.

    No read can hit in an L1 there, and no register is spilled.
    """
    worst_clear: float
    """Largest relative difference of reads or writes there."""
    totals: int
    equal_totals: int
    """Sector totals of third-party kernels, and those equal to the last sector."""
    undecided: int
    """Totals that data decide, or that are not derived."""
    kernels: int
    """Kernels of these totals."""
    hbm: Row
    """Errors of the simulated HBM reads, launch by launch."""


def agreement(records: Records) -> Agreement:
    """Return the numbers of these records."""
    measured = [one for one in records.own if one.source == "measure" and one.status in BYTES_HOLD]
    points = [observe(one) for one in measured if one.target in CASES]
    clear = [one for one in points if matches_algorithm(one)]
    asked, compared = totals(records), list(third_party_launches(records))
    return Agreement(
        attention_points=len(points),
        clear_points=len(clear),
        worst_clear=max((_difference(one.observed, one.predicted) for one in clear), default=0.0),
        totals=len(asked),
        equal_totals=sum(one.derived == one.counted for one in asked),
        undecided=2 * len(compared) - len(asked),
        kernels=len({(one.target, one.kernel) for one in asked}),
        hbm=next((row for row in records.accuracy().rows if (row.family, row.place) == ("all", "HBM reads")), NO_ROW),
    )


def _difference(observed: Result, predicted: Result) -> float:
    """Return the larger relative difference of reads and of writes."""
    sides: Sequence[tuple[int | None, int | None]] = [
        (getattr(observed.requested, name), getattr(predicted.requested, name)) for name in ("read_bytes", "write_bytes")
    ]
    return max((abs(one / other - 1) for one, other in sides if one is not None and other), default=0.0)


def three_numbers(found: Agreement) -> Iterator[dict[str, str]]:
    """Yield each number with its name and what it is of."""
    within = "0.001 %" if found.worst_clear <= 1e-5 else percent_text(found.worst_clear)
    undecided = f"; {found.undecided} more are not predicted" if found.undecided else ""
    yield {
        "value": f"{found.clear_points} of {found.attention_points}",
        "name": "forward points at which no L1 can serve a read",
        "what": f"each within {within} of its closed form; at the others L1 hits lower the counts",
    }
    yield {
        "value": f"{found.equal_totals} of {found.totals}",
        "name": "sector totals equal to the last sector",
        "what": f"of {found.kernels} third-party kernels, derived from compiled code without a GPU{undecided}",
    }
    near = percent_text(found.hbm.percentile_95)
    yield {
        "value": percent_text(found.hbm.median),
        "name": "median error of simulated HBM reads",
        "what": f"of {found.hbm.count} launches and calls in steady state; 95 % of them within {near}",
    }
