"""Theorem 1 of the FlashAttention paper: FLOPs and memory of exact attention.

It is exact attention with O(N^2 d) FLOPs and O(N) additional memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ioaware.analysis.theory.claims.claim import Claim, Comparison, Exponent, Part, conclude, judge_comparisons
from ioaware.analysis.theory.claims.evidence import Evidence, Need, Observation
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.claims.traced_points import ATTENTION, FLASH, causal_series, every_need, flops_series

NAME = "theorem1"
STATEMENT = (
    "Algorithm 1 returns O = softmax(QK^T)V with O(N^2 d) FLOPs and requires O(N) additional memory beyond inputs and output."
)
SOURCE = "Dao, Fu, Ermon, Rudra, Re: FlashAttention, 2022, arXiv 2205.14135, Theorem 1"

NOTES: tuple[str, ...] = (
    "flash1 is the paper's Algorithm 1, the theorem's subject; flash2 (arXiv 2307.08691, Algorithm 1) is checked beside it, "
    "and standard attention (Algorithm 0) is the contrast: its S and P need memory that grows as N^2.",
    "FLOPs are those of the matrix products (a multiply-add is two), as traced tile by tile; where a mask hides whole blocks "
    "the count is block-granular: 4 d times the rows and columns of the blocks visited.",
    "Equality of FLOPs is asked where the blocks divide N and N_k; a ragged tile computes on its padding.",
)


def points() -> tuple[Need, ...]:
    """Return the runs that the theorem is judged on."""
    return every_need()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on the evidence; no evidence is inconclusive."""
    outputs = [_outputs(target, evidence) for target in ATTENTION]
    flops = {target: _flops(target, evidence) for target in FLASH}
    memory = {target: _memory(target, evidence) for target in ATTENTION}
    parts: list[Part] = [_judge_outputs(target, rows) for target, rows in zip(ATTENTION, outputs, strict=True)]
    parts += [
        judge_comparisons("b", f"{target}: traced FLOPs are 4 N N_k d per head, or the blocks visited when causal", rows)
        for target, rows in flops.items()
    ]
    parts += [
        judge_comparisons("c", f"{target}: extra memory traced at the allocator is the predicted count", rows, unit="bytes")
        for target, rows in memory.items()
    ]
    notes = [*NOTES, *evidence.failures(points())]
    measured = [row for target in ATTENTION for row in _measured_memory(target, evidence)]
    if measured:
        says = "measured extra memory (asked of torch's allocator on the GPU) is the predicted count"
        parts.append(judge_comparisons("c", says, measured, unit="bytes"))
    else:
        notes.append("No recorded measurement has extra memory: (c) rests on the traced allocations alone.")
    return conclude(
        NAME,
        STATEMENT,
        SOURCE,
        parts=parts,
        exponents=[power for target in ATTENTION for power in _exponents(target, evidence)],
        points=[*(row for rows in (*outputs, *flops.values(), *memory.values()) for row in rows), *measured],
        notes=notes,
    )


def _outputs(target: str, evidence: Evidence) -> list[Comparison]:
    """Compare each point's relative Frobenius error with its tolerance: part (a).

    The tolerance is that of its dtype.
    """
    rows: list[Comparison] = []
    for wanted in every_need((target,)):
        seen = evidence.at(wanted)
        check = seen.observed.check if seen else None
        tolerance, error = (check.tolerance, check.relative_error) if check else (None, None)
        rows.append(Comparison("a", str(wanted), tolerance, error, "at most"))
    for seen in evidence.checked(target):
        if seen.observed.check:
            check = seen.observed.check
            rows.append(Comparison("a", seen.where, check.tolerance, check.relative_error, "at most"))
    return rows


def _judge_outputs(target: str, rows: Sequence[Comparison]) -> Part:
    """Check an error within tolerance at every point; a NaN fails."""
    says = f"{target}: outputs equal the float64 reference on the whole grid"
    expected = "relative Frobenius error at most its dtype's tolerance"
    known = [(row, row.expected, row.observed) for row in rows if row.expected is not None and row.observed is not None]
    wrong = [(row, error) for row, tolerance, error in known if not error <= tolerance]
    if wrong:
        row, error = wrong[0]
        return Part("a", says, expected, f"{len(wrong)} wrong; {row.where}: {error:.3g}", len(known), "fails")
    if not known or len(known) < len(rows):
        return Part("a", says, expected, f"{len(known)} of {len(rows)} points checked", len(known), "inconclusive")
    worst = max(error / tolerance if tolerance else math.inf for _, tolerance, error in known)
    return Part("a", says, expected, f"largest error is {worst:.2f} of its tolerance", len(known), "holds")


def _flops(target: str, evidence: Evidence) -> list[Comparison]:
    """Compare traced FLOPs with 4 N N_k d per head where blocks divide: part (b).

    For a causal point they are compared with the causal block count.
    """
    rows: list[Comparison] = []
    for wanted in (*dict.fromkeys(p for each in flops_series(target).values() for p in each), *causal_series(target)):
        seen = evidence.at(wanted)
        rows.append(
            Comparison("b", str(wanted), _expected_flops(seen) if seen else None, seen.observed.flops if seen else None)
        )
    return rows


def _expected_flops(seen: Observation) -> int | None:
    if seen.causal:
        return seen.predicted.flops
    return 4 * seen.heads * seen.values["N"] * seen.values["N_k"] * seen.values["d"]


def _memory(target: str, evidence: Evidence) -> list[Comparison]:
    """Compare bytes allocated beyond inputs and output with the count: part (c).

    They are traced at the allocator.
    """
    rows: list[Comparison] = []
    for wanted in every_need((target,)):
        seen = evidence.at(wanted)
        expected, observed = (seen.predicted.extra_memory_bytes, seen.observed.extra_memory_bytes) if seen else (None, None)
        rows.append(Comparison("c", str(wanted), expected, observed))
    return rows


def _measured_memory(target: str, evidence: Evidence) -> Iterator[Comparison]:
    """Compare the same from torch's allocator on a GPU: part (c).

    This is done where a record has it.
    """
    for seen in evidence.measured(target):
        if seen.observed.extra_memory_bytes is not None:
            yield Comparison("c", seen.where, seen.predicted.extra_memory_bytes, seen.observed.extra_memory_bytes)


def _exponents(target: str, evidence: Evidence) -> Iterator[Exponent]:
    """Fit FLOPs as N^2 d, extra memory as N.

    It is N^2 for standard attention, which keeps S and P.
    """
    in_n, in_d = ([evidence.at(wanted) for wanted in flops_series(target)[name]] for name in ("N", "d"))
    if target in FLASH:
        for variable, seen, expected in (("N", in_n, 2), ("d", in_d, 1)):
            flops = [(s.values, s.observed.flops) for s in seen if s]
            yield from fit_exponents(f"{target}: traced FLOPs", {variable: expected}, flops)
    memory = [(s.values, s.observed.extra_memory_bytes) for s in in_n if s]
    yield from fit_exponents(f"{target}: traced extra memory", {"N": 1 if target in FLASH else 2}, memory)
