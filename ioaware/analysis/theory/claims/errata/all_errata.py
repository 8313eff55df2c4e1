"""Check every known error of the notes and papers.

The printed form fails at a shown point, and the corrected one holds.
"""

from __future__ import annotations

from ioaware.analysis.theory.claims.claim import Claim, Part, conclude
from ioaware.analysis.theory.claims.errata import combiner_notes, fusion_notes, papers, row_notes, slides, step_notebook
from ioaware.analysis.theory.claims.errata.erratum import judge_erratum
from ioaware.analysis.theory.claims.evidence import Evidence, Need

NAME = "errata"
ERRATA = (
    *slides.ERRATA,
    *step_notebook.ERRATA,
    *combiner_notes.ERRATA,
    *fusion_notes.ERRATA,
    *row_notes.ERRATA,
    *papers.ERRATA,
)
STATEMENT = (
    f"Of {len(ERRATA)} errors in the notes and papers the printed form fails at a shown point and the corrected form holds."
)
SOURCE = "unpublished slides (S0), notebook (S1), notes (S2 and S3), summary (S4); FlashAttention and FlashAttention-2 (P)"
NOTES = (
    "Definitions are softmax, attention and finite differences in float64, counts of array elements, and walks over loops; "
    "each form is tried at four random points. A corrected form may differ by 1e-6, the printed one differs by more than 1e-3 "
    "at some point.",
)


def points() -> tuple[Need, ...]:
    """Return no runs: every form is computed here."""
    return ()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on every pair."""
    del evidence
    parts: list[Part] = [part for case in ERRATA for part in judge_erratum(case)]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, notes=NOTES)
