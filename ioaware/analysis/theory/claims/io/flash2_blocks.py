"""Check that FlashAttention-2's order moves the same for every M.

It has FlashAttention's block sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Exponent, conclude, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import judge_traced
from ioaware.analysis.theory.claims.evidence import Evidence, Need, need
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.claims.leading_constants import memory_of, observed_leading_bytes
from ioaware.analysis.theory.counts import flash1, flash2

NAME = "flash2_blocks"
STATEMENT = (
    "FlashAttention-2's order with B_r = min(ceil(M / 4d), d) moves 2 N^2 + 2 N d + N elements for every M >= 4 d^2: swapped "
    "loops need swapped blocks."
)
SOURCE = (
    "Dao 2023, arXiv 2307.08691, Algorithm 1, which gives no rule; the rule of Dao et al. 2022, arXiv 2205.14135, Algorithm 1, "
    "line 1"
)

NOTES = (
    "With the roles swapped, B_r = ceil(M / 4d), the count falls as 1/M: 8 N^2 d^2 / M to leading order. A notebook that turns "
    "FlashAttention's loops around and keeps its block sizes measures no gain from a larger M.",
)
LENGTH, HEAD_DIM = 2**14, 64
MEMORIES = tuple(4 * HEAD_DIM**2 * 2**k for k in range(6))
KEPT = tuple(need("trace", "flash2", seq_len=64, head_dim=16, dtype="float32", block_m=16, block_n=n) for n in (16, 32, 64))
"""B_r = d and B_c = M / 4d for M = 4 d^2, 8 d^2, 16 d^2: FlashAttention's blocks."""
SWAPPED = tuple(need("trace", "flash2", seq_len=64, head_dim=16, dtype="float32", block_m=m, block_n=16) for m in (16, 32, 64))


def points() -> tuple[Need, ...]:
    """Return runs with both assignments of the blocks."""
    return (*KEPT, *SWAPPED)


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on the exact count at both assignments, and on traces."""
    flat = [Comparison("b", _where(m), _constant(), _exact(flash1.PAPER_BLOCKS, m)) for m in MEMORIES]
    traced = [
        Comparison("c", str(wanted), 4 * (2 * 64**2 + 2 * 64 * 16 + 64), seen.requested_bytes if seen else None)
        for wanted, seen in ((wanted, evidence.at(wanted)) for wanted in KEPT)
    ]
    parts, rows = judge_traced("a", points(), evidence)
    parts += [
        judge_comparisons("b", "FlashAttention's blocks: exactly 2 N^2 + 2 N d + N elements for every M >= 4 d^2", flat),
        judge_comparisons("c", "the kernel with those blocks requests the same bytes for every M", traced, unit="bytes"),
    ]
    exponents = [*_exponents(), *_traced_exponents(evidence)]
    notes = [*NOTES, *evidence.failures(points())]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, exponents=exponents, points=[*rows, *flat, *traced], notes=notes)


def _where(m: int) -> str:
    return f"N={LENGTH} d={HEAD_DIM} M={m}"


def _constant() -> int:
    return 2 * LENGTH**2 + 2 * LENGTH * HEAD_DIM + LENGTH


def _exact(blocks: Mapping[str, object], m: int) -> int:
    """Return FlashAttention-2's count with a rule's blocks."""
    values = {"N": LENGTH, "N_k": LENGTH, "d": HEAD_DIM, "M": m}
    sizes = {name: evaluate(rule, values) for name, rule in blocks.items()}  # pyright: ignore[reportArgumentType]
    return flash2.counts(False).total_elements({**values, **sizes})


def _exponents() -> Iterator[Exponent]:
    rest = 2 * LENGTH * HEAD_DIM + LENGTH
    for words, blocks, power in (
        ("FlashAttention's blocks", flash1.PAPER_BLOCKS, 0),
        ("swapped blocks", flash2.PAPER_BLOCKS, -1),
    ):
        samples = [({"M": m}, _exact(blocks, m) - rest) for m in MEMORIES]
        yield from fit_exponents(f"flash2, {words}: exact elements, leading term", {"M": power}, samples)


def _traced_exponents(evidence: Evidence) -> Iterator[Exponent]:
    """Fit M, which the paper's rule ties to B_c or B_r.

    It is B_c with FlashAttention's blocks and B_r with swapped ones.
    """
    for words, needs, power in (("FlashAttention's blocks", KEPT, 0), ("swapped blocks", SWAPPED, -1)):
        seen = [one for one in map(evidence.at, needs) if one]
        samples = [
            ({"M": memory_of(one) if power else 4 * one.values["d"] * one.values["B_c"]}, observed_leading_bytes(one))
            for one in seen
        ]
        yield from fit_exponents(f"flash2, {words}: traced bytes, leading term", {"M": power}, samples)
