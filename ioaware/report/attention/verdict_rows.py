"""Rows of the section on theory: each claim with its verdict and its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioaware.display.text import claim_title, clean
from ioaware.report.attention.text_rows import evidence_rows
from ioaware.report.attention.typography import typeset

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim

TONES = {"holds": "holds", "fails": "fails", "failed": "fails", "impossible": "fails", "wrong output": "fails"}
TITLES: Mapping[str, str] = {
    "saha_ye": "Saha and Ye's bound",
    "backward_bound": "The bound of the backward pass",
    "crossovers": "Who moves fewer elements",
    "capacity": "Whether the blocks fit",
    "flash2_blocks": "FlashAttention-2's blocks",
    "softmax": "Accesses of softmax",
    "gqa": "Grouped heads",
    "gpu_exchange": "What GPUs exchange",
    "combiners": "Combining parts of a row",
    "output_error": "Rounding of O",
    "gradient_error": "Rounding of dQ",
    "errata": "Errors in print",
}
MAX_PARTS, MAX_COMPARED = 24, 12
"""Rows of evidence that the page shows of a claim.

`ioaware verify CLAIM --json` has all.
"""


def verdict_rows(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return the values of the template for each claim."""
    return [_row(claim) for claim in claims]


def _row(claim: Claim) -> dict[str, Any]:
    evidence = claim.evidence
    parts, exponents = list(evidence.get("parts", ())), list(evidence.get("exponents", ()))
    compared, left = evidence_rows(evidence.get("points", ()), MAX_COMPARED)
    return {
        "name": clean(claim.claim, 60),
        "title": TITLES.get(claim.claim) or claim_title(claim.claim),
        "statement": typeset(claim.statement),
        "source": clean(claim.source),
        "verdict": _tone(claim.verdict),
        "held": sum(part.get("verdict") == "holds" for part in parts),
        "checks": len(parts),
        "parts": [_part(part) for part in sorted(parts, key=lambda part: part.get("verdict") == "holds")[:MAX_PARTS]],
        "parts_left": max(0, len(parts) - MAX_PARTS),
        "exponents": [_exponent(row) for row in exponents],
        "compared": compared,
        "compared_left": left,
        "compared_equal": len(evidence.get("points", ())) - len(compared) - left,
        "notes": [typeset(note) for note in evidence.get("notes", ())],
    }


def _tone(verdict: object) -> str:
    return TONES.get(str(verdict), "inconclusive")


def _part(part: Mapping[str, Any]) -> dict[str, str]:
    shown = {name: typeset(str(part.get(name, "")), 400) for name in ("says", "expected", "observed")}
    verdict = part.get("verdict", "")
    return shown | {"points": clean(part.get("points", "")), "verdict": clean(verdict), "tone": _tone(verdict)}


def _exponent(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "quantity": clean(row.get("quantity", "")),
        "variable": clean(row.get("variable", "")),
        "expected": clean(row.get("expected", "")),
        "fitted": _four(row.get("exponent")),
        "interval": f"{_four(row.get('low'))} to {_four(row.get('high'))}",
        "verdict": clean(row.get("verdict", "")),
        "tone": _tone(row.get("verdict")),
    }


def _four(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else clean(value)
