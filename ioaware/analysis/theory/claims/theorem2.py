"""Theorem 2 of the FlashAttention paper: the requests of attention.

It sets Theta(N^2 d^2 / M) requests against Theta(N d + N^2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.asymptotics import exact_exponents, judge_constants, judge_lower_bound
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Exponent, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import MEASURED_TOLERANCE, answered_rows, judge_traced, request_rows
from ioaware.analysis.theory.claims.evidence import Evidence, Need, Observation, derived
from ioaware.analysis.theory.claims.exponents import fit_exponents, fittable
from ioaware.analysis.theory.claims.hardware import l1_savings_bytes, matches_algorithm, spills
from ioaware.analysis.theory.claims.hbm_regimes import judge_hbm
from ioaware.analysis.theory.claims.leading_constants import POWERS, memory_of, observed_leading_bytes
from ioaware.analysis.theory.claims.standard_half import judge_standard_half, scarce_exponents
from ioaware.analysis.theory.claims.traced_points import ATTENTION, FLASH, every_need, series
from ioaware.analysis.theory.counting import LIVE_SET
from ioaware.analysis.theory.lower_bounds import lower_bound_bytes

NAME = "theorem2"
STATEMENT = (
    "For d <= M <= N d, FlashAttention (Algorithm 1) requests Theta(N^2 d^2 / M) elements of slow memory; standard attention "
    "(Algorithm 0) Theta(N d + N^2), given M = Omega(d^2)."
)
SOURCE = (
    "Dao, Fu, Ermon, Rudra, Re: FlashAttention, 2022, arXiv 2205.14135, Theorem 2; its condition on M: Saha and Ye 2024, arXiv "
    "2402.07443, Theorem 3.7"
)

NOTES: tuple[str, ...] = (
    "What is counted is requested bytes: those between the SMs and the L2, M being the on-chip memory of one program. HBM "
    "bytes lie below them wherever the L2 holds what is read again: (f) has the regimes.",
    "The paper states the standard half for all d <= M <= N d. It charges each operand of a matrix product once; for M = "
    "o(d^2) that contradicts Saha and Ye's Theorem 3.7, Omega(N^2 d / sqrt M) for any order of the standard product, so M = "
    "Omega(d^2) is part of the claim here.",
    "Wording: for fixed M and d the count is quadratic in N (twice the N, four times the bytes); 'sub-quadratic' describes "
    "only M that grows with N.",
    "At the paper's block sizes K, V, Q, O, S, l and m of one step are 2d(B_r + B_c) + B_r B_c + 2 B_r elements, which exceeds "
    "M whenever M < 8 d^2 + 8 d (M/4d leaves no room for S): Theta survives, an on-chip memory of exactly M does not.",
    "Exponents of a leading term are fitted to what was observed less the lower-order terms of the exact count; those of the "
    "whole count are shown beside them, not judged: over a finite range the lower-order terms bend them.",
    "flash2 is no part of the theorem; with B_r = ceil(M/4d) its count has the same powers and about two thirds of the leading "
    "constant.",
)


_DERIVED = derived(*ATTENTION, seq_len=4096)


def points() -> tuple[Need, ...]:
    """Return the runs that the theorem is judged on.

    Recorded measurements join them where available.
    """
    return (*every_need(), *_DERIVED)


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on the evidence; no evidence is inconclusive."""
    traced = {target: answered_rows("a", every_need((target,)), evidence) for target in ATTENTION}
    parts: list[Part] = [
        judge_comparisons("a", f"{target}: traced reads and writes are the exact counts", rows, unit="bytes")
        for target, rows in traced.items()
    ]
    parts += judge_traced("a", _DERIVED, evidence)[0]
    counted = (seen for seen in evidence.measured(*ATTENTION) if seen.requested_bytes is not None)  # others hold times alone
    measurements = list(counted)
    spilled = [seen for seen in measurements if spills(seen)]
    helped = [seen for seen in measurements if l1_savings_bytes(seen) and not spills(seen)]
    clear = [row for seen in measurements if matches_algorithm(seen) for row in request_rows("b", seen)]
    notes = [*NOTES, *evidence.failures(points())]
    if measurements:
        parts += _judge_measured(clear, helped)
        notes += [
            f"Not compared, {seen.where}: the compiler spilled registers, whose traffic the counters see." for seen in spilled
        ]
    else:
        notes.append("Nothing was measured with counters: the verdict rests on traced requests and exact counts, without (b).")
    parts += judge_constants()
    parts += judge_standard_half()
    parts += [judge_lower_bound(), _judge_observed_bound(evidence), *judge_hbm(measurements)]
    return conclude(
        NAME,
        STATEMENT,
        SOURCE,
        parts=parts,
        exponents=[*exact_exponents(), *scarce_exponents(), *_traced_exponents(evidence), *_measured_exponents(measurements)],
        points=[*itertools.chain(*traced.values()), *clear, *(row for seen in helped for row in request_rows("b, L1", seen))],
        notes=notes,
    )


def _judge_measured(clear: Sequence[Comparison], helped: Sequence[Observation]) -> Iterator[Part]:
    """Check equality where the L1 cannot help.

    Elsewhere reads may fall by at most what the L1 can hold.
    """
    yield judge_comparisons(
        "b",
        "measured reads and writes are the exact counts where nothing that the L1 holds is read again",
        clear,
        tolerance=MEASURED_TOLERANCE,
        unit="bytes",
    )
    most: list[tuple[str, float]] = []
    least: list[tuple[str, float]] = []
    for seen in helped:
        reads, _ = request_rows("b", seen)
        if reads.observed is not None and reads.expected:
            most.append((reads.where, reads.observed / reads.expected))
            least.append((reads.where, (reads.observed + l1_savings_bytes(seen)) / reads.expected))
    if most:
        writes = [tuple(request_rows("b", seen))[1] for seen in helped]
        says = "where programs read again what the L1 may hold, writes are the exact counts"
        yield judge_comparisons("b", says, writes, tolerance=MEASURED_TOLERANCE, unit="bytes")
        says = "there reads are never more than the exact counts"
        yield judge_bounds("b", says, most, high=1 + MEASURED_TOLERANCE)
        says = "and never fewer than the exact counts less all that the L1 can hold"
        yield judge_bounds("b", says, least, low=1 - MEASURED_TOLERANCE)


def _judge_observed_bound(evidence: Evidence) -> Part:
    """Check traced totals against the lower bound of one fast memory per program.

    Each fast memory is of the live set's size.
    """
    ratios: list[tuple[str, float]] = []
    for wanted in every_need():
        seen = evidence.at(wanted)
        total = seen.requested_bytes if seen else None
        if seen is not None and total is not None:
            programs = max((math.prod(launch.grid) for launch in seen.observed.launches), default=1)
            at = {**seen.values, "M": evaluate(LIVE_SET, seen.values)}
            bound = lower_bound_bytes(at, causal=seen.causal, heads=seen.heads, processors=programs)
            ratios.append((str(wanted), total / bound))
    says = "traced requests are never below the lower bound for M = the elements live in one step of a program"
    return judge_bounds("e", says, ratios, low=1, at_least=len(every_need()))


def _traced_exponents(evidence: Evidence) -> Iterator[Exponent]:
    """Fit series that vary one variable each.

    Elements are bytes / 4, which no exponent sees.
    """
    for target in ATTENTION:
        for variable, needs in series(target).items():
            seen = [s for s in map(evidence.at, needs) if s]
            yield from _powers(f"{target}: traced bytes", {variable: POWERS[target][variable]}, seen)


def _measured_exponents(measurements: Sequence[Observation]) -> Iterator[Exponent]:
    """Fit unmasked square measurements that the L1 cannot help.

    All powers at once where head_dim and blocks vary enough to separate them. Else the power of N at the d and M with most
    points; no rows where N varies too little.
    """
    for target in ATTENTION:
        seen = [s for s in measurements if s.target == target and not s.causal and matches_algorithm(s)]
        seen = [s for s in seen if s.values["N"] == s.values["N_k"] and s.values.get("c", 1) == 1]
        powers = {name: power for name, power in POWERS[target].items() if name != "M" or target in FLASH}
        if not fittable(powers, [_at(s) for s in seen]):
            powers, seen = {"N": powers["N"]}, _most_of_one_size(seen)
        if fittable(powers, [_at(s) for s in seen]):
            yield from _powers(f"{target}: measured bytes", powers, seen)


def _most_of_one_size(seen: Sequence[Observation]) -> list[Observation]:
    """Return the largest group that shares d and both blocks."""
    groups: dict[tuple[int, ...], list[Observation]] = {}
    for s in seen:
        groups.setdefault(tuple(s.values[name] for name in ("d", "B_r", "B_c")), []).append(s)
    return max(groups.values(), key=len, default=list[Observation]())


def _powers(quantity: str, powers: Mapping[str, float], seen: Sequence[Observation]) -> Iterator[Exponent]:
    whole = [(_at(s), _per_head(s, s.requested_bytes)) for s in seen]
    leading = [(_at(s), _per_head(s, observed_leading_bytes(s))) for s in seen]
    yield from fit_exponents(quantity, powers, whole, judged=False)
    yield from fit_exponents(f"{quantity}, leading term", powers, leading)


def _per_head(seen: Observation, count: int | None) -> float | None:
    """Return a count per head and input byte.

    Batches and dtypes thereby lie on one power law.
    """
    return None if count is None else count / (seen.heads * seen.values["e"])


def _at(seen: Observation) -> dict[str, int]:
    return {"N": seen.values["N"], "d": seen.values["d"], "M": memory_of(seen)}
