"""Check the crossovers of FlashAttention and standard attention.

FlashAttention moves fewer elements iff a short inequality holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sympy import Expr, Symbol

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.theory import crossovers
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons, points_text
from ioaware.analysis.theory.claims.evidence import Evidence, Need, Observation
from ioaware.analysis.theory.counting import B_r, Counts, N, N_k, T_c, T_r, e
from ioaware.analysis.theory.counts import (
    flash1,
    flash1_backward,
    flash2,
    flash2_backward,
    grouped,
    standard,
    standard_backward,
)

NAME = "crossovers"
STATEMENT = (
    "FlashAttention moves fewer elements than standard attention if and only if T_c (3d + 4) < 4N + d - 2, for large N M > 3 "
    "d^2 + 4 d; likewise for its other passes."
)
SOURCE = (
    "exact counts of Dao et al. 2022, arXiv 2205.14135, Algorithms 0, 1, 3, 4, and Dao 2023, arXiv 2307.08691, Algorithms 1, 2"
)

NOTES = (
    "Standard attention is the idealised one, each matrix once per line, its best case; N_k = N but for decoding, and no mask.",
    "For N <= (d + 3) / 2, 33 at d = 64, standard attention moves fewer elements than Algorithm 1 at any M.",
)


def points() -> tuple[Need, ...]:
    """Return no runs, since the counts are compared on a grid.

    Recorded counters are compared at their points.
    """
    return ()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on a whole grid of sizes and on recorded counters."""
    counted = list(_counted(evidence))
    parts = [
        _judge_condition("flash1: T_c (3d + 4) < 4N + d - 2", flash1.counts(False), crossovers.flash1_beats_standard),
        _judge_condition("flash2: 2 d T_r < 4N + 2d - 1", flash2.counts(False), crossovers.flash2_beats_standard),
        _judge_condition(
            "flash1 backward: T_c (5d + 2) < 7N + d",
            flash1_backward.counts(False),
            crossovers.flash1_backward_beats_standard,
            standard_backward.idealised(),
        ),
        _judge_condition(
            "flash2 backward, minimal: T_c (4d + 2) + 1 < 7N + d",
            flash2_backward.printed(needed_only=True),
            crossovers.flash2_backward_beats_standard,
            standard_backward.idealised(),
        ),
        _judge_bytes(),
        _judge_splits(),
        *_judge_first_memory(),
        _judge_short(),
    ]
    if counted:
        says = (
            "recorded counters: of standard attention and flash1 or flash2 at one shape, the one predicted to move fewer bytes "
            "did"
        )
        parts.append(judge_comparisons("d", says, counted))
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, points=counted, notes=NOTES)


_passes = Symbol("passes", integer=True, positive=True)
GRID = {
    "N": np.arange(1, 121)[:, None, None],
    "d": np.arange(1, 41)[None, :, None],
    "passes": np.arange(1, 61)[None, None, :],
}


def _total(counts: Counts) -> Expr:
    return counts.reads.count + counts.writes.count


def _judge_condition(says: str, counts: Counts, condition: Callable[..., Any], ideal: Counts | None = None) -> Part:
    """Check the condition against the difference of the two counts.

    It is checked at every N <= 120, d <= 40, T <= 60.
    """
    flash: Any = _total(counts)
    difference: Any = _total(ideal or standard.idealised()) - flash.subs({T_c: _passes, T_r: _passes})
    return _judge_grid("a", f"fewer elements if and only if {says}", difference.subs(N_k, N), condition)


def _judge_grid(part: str, says: str, difference: Any, condition: Callable[..., Any]) -> Part:
    """Check that the condition holds exactly where the difference is positive.

    It is positive at some points and not at others.
    """
    wins = np.asarray(compile_expression(difference)(GRID)) > 0
    said = np.broadcast_to(condition(*GRID.values()), wins.shape)
    wrong = int((wins != said).sum())
    both = bool(wins.any() and not wins.all())
    observed = f"{wrong} differ" if wrong else f"all equal; fewer at {int(wins.sum()):,}"
    verdict = "fails" if wrong else "holds" if both else "inconclusive"
    return Part(part, says, f"equal at {points_text(wins.size)}", observed, wins.size, verdict)


def _judge_bytes() -> Part:
    """Check the form in bytes at our own widths.

    S is in fp32, the rest in 16 bits, with one block and one read of a row.
    """
    ours: Any = standard.counts(False).reads.bytes + standard.counts(False).writes.bytes
    flash: Any = flash1.counts(False).reads.bytes + flash1.counts(False).writes.bytes
    difference = ours.subs({T_c: 1, T_r: 1, standard.c: 1, e: 2}) - flash.subs({T_c: _passes, e: 2})

    def condition(n: Any, d: Any, passes: Any) -> Any:
        widths = {"input_bytes": 2, "output_bytes": 2, "score_bytes": 4, "probability_bytes": 2}
        return crossovers.flash1_beats_standard_bytes(n, d, passes, **widths)

    says = "fewer bytes (fp32 S, 16-bit P) if and only if flash1: T_c (6d + 16) + 6d + 8 < 12N + 8d"
    return _judge_grid("a", says, difference.subs(N_k, N), condition)


def _judge_splits() -> Part:
    """Check decoding, one query and S splits, against the idealised Algorithm 0.

    It is checked at every N_k <= 120, d <= 40, S <= 60.
    """
    difference: Any = _total(standard.idealised()) - _total(grouped.split(False))
    one_query = difference.subs({N: 1, B_r: 1, grouped.S: _passes}).subs(N_k, N)
    says = "fewer elements if and only if, decoding with S splits: 4 N_k > S (3d + 2) - d + 1"
    return _judge_grid("b", says, one_query, crossovers.split_beats_standard)


def _judge_first_memory() -> Iterator[Part]:
    """Check the first winning M of the paper's blocks.

    It is within one block of the limit, and one element below is a loss.
    """
    rows: list[Comparison] = []
    near: list[tuple[str, float]] = []
    for d in (16, 64, 128):
        for name, counts, first, limit in (
            ("flash1", flash1.counts(False), crossovers.first_flash1_memory, crossovers.FLASH1_MEMORY),
            ("flash2", flash2.counts(False), crossovers.first_flash2_memory, crossovers.FLASH2_MEMORY),
        ):
            memory = first(2**20, d)
            at = evaluate(limit, {"d": d})
            near.append((f"{name} d={d}", abs((memory or 0) - at) / (4 * d)))
            for m, wins in ((memory, 1), (memory - 1 if memory else None, 0)):
                rows.append(Comparison("c", f"{name} N=2^20 d={d} M={m}", wins, m and _wins(counts, 2**20, d, m)))
    yield judge_comparisons(
        "c", "the first M at which flash1 or flash2 moves fewer: there it does, one element below it does not", rows
    )
    says = "for N = 2^20 that M is 3 d^2 + 4 d (flash1) or 2 d^2 (flash2) within a block; distance in blocks of 4 d"
    yield judge_bounds("c", says, near, high=1)


def _wins(counts: Counts, n: int, d: int, m: int) -> int:
    values = {"N": n, "N_k": n, "d": d, "M": m}
    values |= {name: evaluate(block, values) for name, block in counts.blocks.items()}
    return int(counts.total_elements(values) < standard.idealised().total_elements(values))


def _judge_short() -> Part:
    """Check that a single pass over K and V loses exactly for N <= (d + 3) / 2."""
    rows = [
        Comparison("c", f"N={n} d={d}", int(2 * n > d + 3), _one_pass(n, d)) for d in (1, 8, 64, 128) for n in range(1, d + 8)
    ]
    return judge_comparisons("c", "flash1 in one pass (any M) moves fewer if and only if N > (d + 3) / 2", rows)


def _one_pass(n: int, d: int) -> int:
    values = {"N": n, "N_k": n, "d": d, "B_r": n, "B_c": n}
    return int(flash1.counts(False).total_elements(values) < standard.idealised().total_elements(values))


def _counted(evidence: Evidence) -> Iterator[Comparison]:
    """Compare the order of measured with that of predicted bytes, shape by shape."""
    by_shape: dict[tuple[Any, ...], Observation] = {_shape(seen): seen for seen in evidence.measured("standard")}
    for seen in evidence.measured("flash1", "flash2"):
        ideal = by_shape.get(_shape(seen))
        if ideal is None or seen.requested_bytes is None or ideal.requested_bytes is None:
            continue
        predicted = _bytes(seen) < _bytes(ideal)
        yield Comparison("d", seen.where, int(predicted), int(seen.requested_bytes < ideal.requested_bytes))


def _shape(seen: Observation) -> tuple[Any, ...]:
    return tuple(
        seen.observed.params.get(name) for name in ("batch", "heads", "seq_len", "kv_len", "head_dim", "dtype", "causal")
    )


def _bytes(seen: Observation) -> int:
    requested = seen.predicted.requested
    return (requested.total_bytes if requested else None) or 0
