"""Represent claims of theory as executable checks.

They have parts, evidence, and a verdict that fails closed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["holds", "fails", "inconclusive"]
Number = int | float


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine verdicts: any failure fails.

    Anything inconclusive, or no part, is inconclusive; else holds.
    """
    seen = set(verdicts)
    if "fails" in seen:
        return "fails"
    return "holds" if seen == {"holds"} else "inconclusive"


@dataclass(frozen=True, slots=True)
class Part:
    """One check of a claim: statement, expected and observed value, number of points."""

    part: str
    says: str
    expected: str
    observed: str
    points: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number of theory beside one observed number, at a named place.

    None means missing. `relation`: what the observed number should be to theory's, such as an error to its tolerance.
    """

    part: str
    where: str
    expected: Number | None
    observed: Number | None
    relation: Literal["equal", "at most"] = "equal"

    @property
    def deviation(self) -> float:
        """Return |observed - expected| / |expected|.

        Infinite for an expected zero not observed; NaN stays NaN.
        """
        if self.expected is None or self.observed is None:
            return math.nan
        difference = abs(self.observed - self.expected)
        if self.expected == 0:
            return 0.0 if difference == 0 else math.inf
        return float(difference / abs(self.expected))


@dataclass(frozen=True, slots=True)
class Exponent:
    """Fitted power of one variable, beside the theorem's power.

    It has a 95 % confidence interval.

    The power of a whole count is shown beside that of its leading term and not judged. Why: over a finite range the lower-order
    terms move it away from the theorem's. None: the points could not be fitted.
    """

    quantity: str
    variable: str
    exponent: float | None
    low: float | None
    high: float | None
    expected: float
    points: int
    verdict: Verdict | Literal["not judged"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Statement, its source, and the verdict that follows from the evidence alone.

    `evidence` holds `parts` (one row a check), `exponents`, `points` (every number compared) and `notes`.
    """

    claim: str
    statement: str
    source: str
    verdict: Verdict
    evidence: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form of `ioaware verify --json`."""
        return asdict(self)


def conclude(
    claim: str,
    statement: str,
    source: str,
    *,
    parts: Sequence[Part],
    exponents: Sequence[Exponent] = (),
    points: Sequence[Comparison] = (),
    notes: Sequence[str] = (),
) -> Claim:
    """Build the claim from the verdicts of its parts and judged exponents."""
    verdict = combine(
        [*(part.verdict for part in parts), *(power.verdict for power in exponents if power.verdict != "not judged")]
    )
    evidence = {
        "parts": [_plain(asdict(part)) for part in parts],
        "exponents": [_plain(asdict(power)) for power in exponents],
        "points": [_plain(asdict(comparison)) for comparison in points],
        "notes": list(notes),
    }
    return Claim(claim, statement, source, verdict, evidence)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that strict JSON accepts: non-finite numbers are spelled out."""
    return {key: str(value) if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def judge_comparisons(
    part: str, says: str, comparisons: Sequence[Comparison], *, tolerance: float = 0.0, at_least: int = 1, unit: str = ""
) -> Part:
    """Check every observed number within a relative `tolerance` of theory's.

    There must be `at_least` points or more.

    One deviating number, or one NaN, fails the part. A missing number, or too few of them, is inconclusive.
    """
    places = {c.where.removesuffix(" reads").removesuffix(" writes") for c in comparisons}
    expected = f"{'equal' if tolerance == 0 else f'within {100 * tolerance:.2f} %'} at {points_text(len(places))}"
    missing = [c for c in comparisons if c.expected is None or c.observed is None]
    known = [c for c in comparisons if c.expected is not None and c.observed is not None]
    wrong = [c for c in known if not c.deviation <= tolerance]
    if wrong:
        worst = max(wrong, key=lambda c: math.inf if math.isnan(c.deviation) else c.deviation)
        observed = f"{len(wrong)} differ; {worst.where}: {worst.observed} against {worst.expected} {unit}".rstrip()
        return Part(part, says, expected, observed, len(known), "fails")
    if missing or len(known) < max(at_least, 1):
        where = f", first {missing[0].where}" if missing else ""
        observed = f"{len(known)} of {max(at_least, len(comparisons), 1)} points known{where}"
        return Part(part, says, expected, observed, len(known), "inconclusive")
    largest = max(c.deviation for c in known)
    observed = "all equal" if largest == 0 else f"largest difference {100 * largest:.4f} %"
    return Part(part, says, expected, observed, len(known), "holds")


def judge_bounds(
    part: str,
    says: str,
    ratios: Sequence[tuple[str, float]],
    *,
    low: float = -math.inf,
    high: float = math.inf,
    at_least: int = 1,
) -> Part:
    """Check that every ratio lies in [low, high].

    It is given with its place, as for a Theta or Omega with constants.
    """
    limits = [f"at least {low:.6g}" if low > -math.inf else "", f"at most {high:.6g}" if high < math.inf else ""]
    expected = f"equal to {low:.6g}" if low == high else " and ".join(limit for limit in limits if limit)
    outside = [(where, ratio) for where, ratio in ratios if not low <= ratio <= high]
    if outside:
        where, ratio = outside[0]
        return Part(part, says, expected, f"{len(outside)} outside; {where}: {ratio:.6g}", len(ratios), "fails")
    if len(ratios) < max(at_least, 1):
        return Part(part, says, expected, f"{len(ratios)} of {max(at_least, 1)} points known", len(ratios), "inconclusive")
    values = [ratio for _, ratio in ratios]
    ends = dict.fromkeys(f"{end:.6g}" for end in (min(values), max(values)))
    return Part(part, says, expected, " to ".join(ends), len(ratios), "holds")


def points_text(count: int) -> str:
    """Return a number of points in words: `1 point`, `288,000 points`."""
    return f"{count:,} point{'' if count == 1 else 's'}"
