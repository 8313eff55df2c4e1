"""Compare requested bytes of traces and measurements with the exact counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioaware.analysis.theory.claims.claim import Comparison, Part, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.evidence import Evidence, Need, Observation
from ioaware.result import Traffic

MEASURED_TOLERANCE = 1e-3
"""Counters and exact counts agree within this in the simple case.

In it no cache serves a read again and whole sectors are used.
"""


def traffic_rows(part: str, where: str, expected: Traffic | None, observed: Traffic | None) -> Iterator[Comparison]:
    """Compare reads and writes separately.

    A kernel cannot then trade one for the other.
    """
    yield Comparison(part, f"{where} reads", expected and expected.read_bytes, observed and observed.read_bytes)
    yield Comparison(part, f"{where} writes", written(expected), written(observed))


def written(traffic: Traffic | None) -> int | None:
    """Return writes and atomics together: a kernel must not hide writes there."""
    if traffic is None or traffic.write_bytes is None:
        return None
    return traffic.write_bytes + (traffic.atomic_bytes or 0)


def request_rows(part: str, seen: Observation) -> Iterator[Comparison]:
    """Compare what was requested with what the closed form predicts there."""
    yield from traffic_rows(part, seen.where, seen.predicted.requested, seen.observed.requested)


def answered_rows(part: str, needs: Sequence[Need], evidence: Evidence) -> list[Comparison]:
    """Compare every needed run with its prediction.

    A run that is missing, failed or not exact has no numbers.
    """
    rows: list[Comparison] = []
    for wanted in needs:
        seen = evidence.at(wanted)
        exact = seen is not None and seen.observed.exact
        expected, observed = (seen.predicted.requested, seen.observed.requested) if seen and exact else (None, None)
        rows += traffic_rows(part, str(wanted), expected, observed)
    return rows


def judge_traced(part: str, needs: Sequence[Need], evidence: Evidence) -> tuple[list[Part], list[Comparison]]:
    """Check that each case's traced or derived traffic is the exact counts.

    Return the parts and every row.
    """
    parts: list[Part] = []
    rows: list[Comparison] = []
    for source, target in dict.fromkeys((wanted.source, wanted.target) for wanted in needs):
        own = answered_rows(part, [one for one in needs if (one.source, one.target) == (source, target)], evidence)
        says = f"{target}: {source}d reads and writes are the exact counts"
        parts.append(judge_comparisons(part, says, own, unit="bytes"))
        rows += own
    return parts, rows


def judge_measured(part: str, targets: Sequence[str], evidence: Evidence) -> Iterator[Part]:
    """Check recorded counters: writes are the exact counts, reads never more.

    An L1 may serve some reads again.
    """
    counted = [seen for seen in evidence.measured(*targets) if seen.requested_bytes is not None]
    rows = [tuple(request_rows(part, seen)) for seen in counted]
    if not rows:
        return
    names = ", ".join(dict.fromkeys(seen.target for seen in counted))
    says = f"{names}: counted writes are the exact counts"
    yield judge_comparisons(part, says, [writes for _, writes in rows], tolerance=MEASURED_TOLERANCE, unit="bytes")
    ratios = [
        (reads.where, reads.observed / reads.expected) for reads, _ in rows if reads.expected and reads.observed is not None
    ]
    yield judge_bounds(part, f"{names}: counted reads are at most the exact counts", ratios, high=1 + MEASURED_TOLERANCE)
