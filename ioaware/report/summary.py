"""Summarise the report in a few sentences, every number computed from the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ioaware.analysis.theory.claims.hardware import matches_algorithm
from ioaware.display.text import claim_title
from ioaware.display.units import bytes_text, percent_text, times_text
from ioaware.report.comparable_points import Point, Points, Slice
from ioaware.report.figures.labels import over_compulsory
from ioaware.report.kernel_points import Pair, worst_ratio
from ioaware.sweep.claim_evidence import observe

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim

CLOSE = 0.001  # where counters and closed form should be equal, a larger difference is named with its place


FEW = 3  # so many claims have a sentence each; of more, those that hold share one


def summarise(points: Points, claims: Sequence[Claim], kernels: Sequence[Pair] = ()) -> list[str]:
    """Return three to seven sentences: verdicts, agreement, savings of FlashAttention, HBM, memory."""
    return [*_verdicts(claims), *_agreement(points), *_kernels(kernels), *_saving(points), *_memory(points), *_hbm(points)]


def _verdicts(claims: Sequence[Claim]) -> Iterator[str]:
    if not claims:
        yield "No theorem was checked in this run, so there is no verdict."
        return
    holding = [claim for claim in claims if claim.verdict == "holds"]
    named = [claim for claim in claims if claim.verdict != "holds"] if len(claims) > FEW else claims
    sentences = [_verdict(claim) for claim in named]
    if len(claims) > FEW:
        checks = sum(len(claim.evidence.get("parts", ())) for claim in holding)
        names = ", ".join(claim_title(claim.claim) for claim in holding)
        sentences.insert(0, f"{len(holding)} of {len(claims)} claims hold ({checks} checks): {names}")
    yield ". ".join(sentences) + "."


def _verdict(claim: Claim) -> str:
    """Return `Theorem 2 holds (12 of 12 checks)`."""
    parts = claim.evidence.get("parts", ())
    held = sum(part.get("verdict") == "holds" for part in parts)
    return f"{claim_title(claim.claim)} {'is inconclusive' if claim.verdict == 'inconclusive' else claim.verdict}" + (
        f" ({held} of {len(parts)} checks hold)" if parts else ""
    )


def _agreement(points: Points) -> Iterator[str]:
    """Yield sentences on how far traced and measured requested bytes are from the closed form."""
    traced = _deviations(points, points.of("trace"))
    if traced:
        equal = sum(deviation == 0 for _, deviation in traced)
        yield (
            f"The bytes requested in Triton's interpreter equal the closed form at {_of(equal, len(traced))} traced points"
            + ("." if equal == len(traced) else f"; the largest difference is {percent_text(max(abs(d) for _, d in traced))}.")
        )
    measured = _deviations(points, points.of("measure"))
    if not measured:
        yield "No measurement with a verified output is available, so the report says nothing about hardware."
        return
    yield from _beyond_l1([pair for pair in measured if matches_algorithm(observe(pair[0].result))], len(measured))
    yield from _through_l1([pair for pair in measured if not matches_algorithm(observe(pair[0].result))])


def _beyond_l1(measured: Sequence[tuple[Point, float]], points: int) -> Iterator[str]:
    """Compare the counters with the closed form where no read can hit in an L1: they must be equal."""
    if measured:
        point, worst = max(measured, key=lambda pair: abs(pair[1]))
        yield (
            f"At {_of(len(measured), points)} measured points no read can hit in an L1 and no register is spilled. There "
            f"requested bytes are within {percent_text(abs(worst))} of the closed form"
            + ("." if abs(worst) <= CLOSE else f", worst {_place(point)}.")
        )


def _through_l1(measured: Sequence[tuple[Point, float]]) -> Iterator[str]:
    """Compare them where an L1 may serve reads or registers are spilled: the closed form is no more than a bound."""
    if measured:
        point, least = min(measured, key=lambda pair: pair[1])
        above = [pair for pair in measured if pair[1] > CLOSE]
        yield (
            f"At {'the others' if len(measured) > 1 else 'the other'} an L1 may serve reads: requested bytes are at most "
            f"{percent_text(abs(min(least, 0)))} below the closed form, {_place(point)}, and "
            + (f"above it at {len(above):,} point{'s' * (len(above) > 1)}." if above else "never above it.")
        )


def _kernels(kernels: Sequence[Pair]) -> Iterator[str]:
    """Yield a sentence on how far the counters are from the bytes derived from the kernels' IR."""
    compared = [pair for pair in kernels if pair.read_ratio is not None]
    spilling = [pair for pair in compared if pair.spills]
    whole = [pair for pair in compared if not pair.spills]
    worst, spilled = worst_ratio(whole), worst_ratio(spilling)
    if worst is not None:
        names = _list(sorted({pair.name for pair in compared}))
        yield (
            f"Of the kernels without a closed form ({names}), measured requested bytes are within {percent_text(worst)} of "
            f"what derivation reads from their IR at {_of(len(whole), len(compared))} points"
            + (
                f"; at the others registers are spilled, which is in no IR, and up to {percent_text(spilled)} more"
                if spilled
                else ""
            )
            + "."
        )


def _deviations(points: Points, seen: Sequence[Point]) -> list[tuple[Point, float]]:
    ratios = [(point, points.requested_ratio(point)) for point in seen]
    return [(point, ratio - 1) for point, ratio in ratios if ratio is not None and math.isfinite(ratio)]


def _of(part: int, whole: int) -> str:
    return f"all {whole:,}" if part == whole else f"{part:,} of {whole:,}"


def _place(point: Point) -> str:
    mask = ", causal" if point.config.causal else ""
    config = point.config
    return f"in {config.algorithm} at N = {point.seq_len:,}, d = {config.head_dim}{mask}, blocks {config.blocks}"


def _pairs(points: Points, part: Slice) -> Mapping[int, tuple[Point, Point]]:
    """Map N to the measured (standard, flash2) points of a slice, where both exist."""
    seen = {config.algorithm: {point.seq_len: point for point in points.along(config, "measure")} for config in part.configs}
    ours, theirs = seen.get("flash2", {}), seen.get("standard", {})
    return {n: (theirs[n], ours[n]) for n in sorted(theirs.keys() & ours.keys())}


def _main(points: Points) -> tuple[Slice, Point, Point] | None:
    """Return the full-attention slice and the largest N at which standard and flash2 were both measured."""
    found = [(part, _pairs(points, part)) for part in points.slices if not part.causal]
    found = [(part, pairs) for part, pairs in found if pairs]
    if not found:
        return None
    part, pairs = max(found, key=lambda item: (max(item[1]), -item[0].head_dim))
    return part, *pairs[max(pairs)]


def _saving(points: Points) -> Iterator[str]:
    """Compare standard attention's traffic with FlashAttention-2's at the largest common N."""
    main = _main(points)
    if main is None:
        return
    part, theirs, ours = main
    ratios = [
        (theirs.requested_bytes, ours.requested_bytes, "the requested bytes"),
        (theirs.hbm_bytes, ours.hbm_bytes, "the HBM bytes"),
        (_time(theirs), _time(ours), "the time"),
    ]
    savings = [f"{times_text(a / b)} {what}" for a, b, what in ratios if a is not None and b]
    if savings:
        yield f"At N = {ours.seq_len:,} ({part.title}) standard attention takes {_list(savings)} of FlashAttention-2, measured."


def _time(point: Point) -> float | None:
    return None if point.time_ns is None else point.time_ns / point.num_heads


def _list(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _hbm(points: Points) -> Iterator[str]:
    """Yield a sentence on how far FlashAttention-2's HBM traffic is above the compulsory bytes."""
    excess = [(point, over_compulsory(points, point)) for point in points.of("measure") if point.config.algorithm == "flash2"]
    known = [(point, value) for point, value in excess if value is not None]
    if not known:
        return
    low, high = min(known, key=lambda pair: pair[1]), max(known, key=lambda pair: pair[1])
    unwritten = " (below 1×: writes still in the L2)" if low[1] < 1 else ""
    sentence = (
        f"FlashAttention-2's HBM traffic is between {times_text(low[1])} and {times_text(high[1])} the compulsory "
        f"bytes{unwritten}, most {_place(high[0])}"
    )
    if high[0].hbm_bytes is not None and high[0].requested_bytes:
        sentence += f", where {percent_text(high[0].hbm_bytes / high[0].requested_bytes)} of the requested bytes reached HBM"
    yield sentence + "."


def _memory(points: Points) -> Iterator[str]:
    main = _main(points)
    if main is None:
        return
    _, theirs, ours = main
    if theirs.extra_bytes is not None and ours.extra_bytes is not None:
        yield (
            f"There standard attention allocates {bytes_text(theirs.extra_bytes)} beyond inputs and output per head, "
            f"FlashAttention-2 {bytes_text(ours.extra_bytes)}."
        )
