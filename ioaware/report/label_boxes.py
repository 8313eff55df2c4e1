"""Find places of labels that no curve crosses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Line = Sequence[tuple[float, float]]
"""Points (x, y) of a curve, joined by straight lines."""


@dataclass(frozen=True, slots=True)
class Box:
    """The rectangle of a label, in any one unit."""

    left: float
    right: float
    low: float
    high: float

    def meets(self, other: Box) -> bool:
        """Return whether the two rectangles overlap."""
        return self.left < other.right and other.left < self.right and self.low < other.high and other.low < self.high

    def crossed_by(self, lines: Iterable[Line]) -> bool:
        """Return whether a line runs through the rectangle."""
        return any(self._crossed(*sorted(ends)) for line in lines for ends in pairwise(line))

    def _crossed(self, start: tuple[float, float], end: tuple[float, float]) -> bool:
        """Return whether the line between two points, the left one first, does."""
        (x, y), (to_x, to_y) = start, end
        if to_x < self.left or self.right < x:
            return False
        slope = (to_y - y) / (to_x - x) if to_x > x else 0.0
        inside = [y + slope * (at - x) for at in (max(x, self.left), min(to_x, self.right))] if to_x > x else [y, to_y]
        return min(inside) <= self.high and self.low <= max(inside)
