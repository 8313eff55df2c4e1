"""Rows of the section on theory: each claim with its verdict and its evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioaware.display.text import claim_title, clean
from ioaware.report.attention.text_rows import deviation, evidence_rows
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


ONE_VALUE = re.compile(r"^at least (\S+) and at most \1$")
NEGATIVE = re.compile(r"(?<![\w)\]^-])-(?=\d)")
"""The hyphen of a negative number, which a page shows as a minus sign."""


def verdict_rows(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return the values of the template for each claim."""
    return [_row(claim) for claim in claims]


def _row(claim: Claim) -> dict[str, Any]:
    evidence = claim.evidence
    parts, exponents = list(evidence.get("parts", ())), list(evidence.get("exponents", ()))
    points = evidence.get("points", ())
    compared, left = evidence_rows(points, MAX_COMPARED)
    return {
        "name": clean(claim.claim, 60),
        "title": TITLES.get(claim.claim) or claim_title(claim.claim),
        "statement": typeset(claim.statement),
        "source": typeset(claim.source),
        "verdict": _tone(claim.verdict),
        "held": sum(part.get("verdict") == "holds" for part in parts),
        "checks": len(parts),
        "parts": [_part(part) for part in sorted(parts, key=lambda part: part.get("verdict") == "holds")[:MAX_PARTS]],
        "parts_left": _more_checks(len(parts) - MAX_PARTS),
        "exponents": [_exponent(row) for row in exponents],
        "compared": compared,
        "compared_left": left,
        "agreeing": _agreeing(points),
        "notes": [typeset(note) for note in evidence.get("notes", ())],
    }


def _tone(verdict: object) -> str:
    return TONES.get(str(verdict), "inconclusive")


def _part(part: Mapping[str, Any]) -> dict[str, str]:
    said = {name: str(part.get(name, "")) for name in ("says", "expected", "observed")}
    said["expected"] = ONE_VALUE.sub(r"equal to \1", said["expected"])
    shown = {name: typeset(NEGATIVE.sub("−", text) if name != "says" else text, 400) for name, text in said.items()}
    verdict = part.get("verdict", "")
    count = part.get("points", "")
    points = f"{count:,}" if isinstance(count, int) else clean(count)
    return shown | {"points": points, "verdict": clean(verdict), "tone": _tone(verdict)}


def _exponent(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "quantity": typeset(str(row.get("quantity", ""))),
        "variable": typeset(str(row.get("variable", ""))),
        "expected": clean(row.get("expected", "")).replace("-", "−"),
        "fitted": _four(row.get("exponent")),
        "interval": " to ".join(dict.fromkeys((_four(row.get("low")), _four(row.get("high"))))),
        "verdict": clean(row.get("verdict", "")),
        "tone": _tone(row.get("verdict")),
    }


def _four(value: object) -> str:
    return f"{value:z.4f}".replace("-", "−") if isinstance(value, float) else clean(value)


def _more_checks(left: int) -> str:
    """Return how many checks the page leaves out; failing ones come first."""
    return f"{left:,} more check{'s' if left > 1 else ''} in the command's output" if left > 0 else ""


def _agreeing(points: Sequence[Mapping[str, Any]]) -> str:
    """Return how many numbers agree with theory: equal ones, and those within a limit."""
    limits = [point.get("relation") == "at most" for point in points if deviation(point) == 0]
    found = ((len(limits) - sum(limits), "equal"), (sum(limits), "within the limit"))
    counted = ", ".join(f"{count:,} {what}" for count, what in found if count)
    return f"Numbers that agree with theory: {counted}." if counted else ""
