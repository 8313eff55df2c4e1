"""Derive a target anew at values of a range where its formulas do not hold.

A kernel whose block has the next power of two of a size is another kernel at each power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import process_time

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.derivation.derived import Derived
from ioaware.display.time_limit import within
from ioaware.errors import IoawareError, UsageError
from ioaware.report.pages.over import Curve, Moved, moved_at

SLOW = 0.25
"""Share of the time after which a derivation is slow."""


def with_pieces(
    one: Curve, own: int, derive_at: Callable[[int], Derived], bound: Callable[[int], int | None], seconds: float
) -> Curve:
    """Return the curve with points of derivations at its values that were left out.

    From `own` downwards, then upwards, up to a value that no derivation holds at. It ends when so many seconds of CPU time are
    used, and a side ends after a slow derivation: the compiler takes longer with each power of two.
    """
    end = process_time() + seconds
    late = False
    pieces: list[Derived] = []
    found: dict[int, Moved] = {}

    def points(values: Iterable[int]) -> None:
        nonlocal late
        slow = False
        for value in values:
            point = _point(pieces, one.span.name, value, bound)
            if point is None:
                start = process_time()
                late = late or slow or start >= end
                piece = None if slow or start >= end else within(seconds, lambda value=value: _derived(derive_at, value))
                if piece is None or (point := _point([piece], one.span.name, value, bound)) is None:
                    return
                pieces.append(piece)
                slow = process_time() - start > seconds * SLOW
            found[value] = point

    points(sorted((value for value in one.left_out if value < own), reverse=True))
    points(sorted(value for value in one.left_out if value > own))
    every = sorted((*one.points, *found.values()), key=lambda point: point.value)
    left_out = tuple(value for value in one.left_out if value not in found)
    why = f"to derive it there takes too long, {seconds:.0f} s are allowed" if late else one.why
    return replace(one, points=tuple(every), left_out=left_out, why=why, pieces=1 + len(pieces))


def _derived(derive_at: Callable[[int], Derived], value: int) -> Derived | None:
    try:
        return derive_at(value)
    except IoawareError:
        return None


def _point(pieces: Iterable[Derived], name: str, value: int, bound: Callable[[int], int | None]) -> Moved | None:
    """Return the bytes at a value by the first derivation that holds there."""
    for piece in pieces:
        try:
            return moved_at(piece, name, value, None, bound(value))
        except (UsageError, OutsideFormulaError):
            continue
    return None
