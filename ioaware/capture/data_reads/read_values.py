"""Values that host code read from tensors, in order, and the sentences about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN = 60
"""Characters of a value shown in a note."""
PROBES = (1.0, 0.0, -1.0, 0.5, 2.0, 3.7, -0.013, 1e-30, 448.5, -65505.0, 1e30, -1e30, math.inf, -math.inf, math.nan)
"""Values substituted in turn for a number that a kernel computes.

A branch on it changes at one of them.
"""


@dataclass(frozen=True)
class KernelFloat:
    """Marker of a floating-point number that a kernel computes."""


@dataclass
class DataReads:
    """Values that host code read, in order."""

    values: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """Source line, operator that computed what is read, and the value."""
    probe: float = PROBES[0]
    """Value returned for a `KernelFloat`."""
    invented: dict[str, None] = field(default_factory=dict[str, None])
    """Lines that read what follows from integers without given values."""
    random: bool = False
    """Whether a value follows from numbers that torch draws."""

    @property
    def kernel_floats(self) -> tuple[str, ...]:
        """Lines that read a number computed by a kernel."""
        return tuple(where for where, _, value in self.values if isinstance(value, KernelFloat))


def assumptions(reads: DataReads) -> dict[str, str]:
    """Return a sentence for each source line that reads data, with the first values."""
    values: dict[str, list[Any]] = {}
    for where, _, value in reads.values:
        values.setdefault(where, []).append(value)
    return {where: f"assumes that the data read at {where} {_shown(read)}" for where, read in values.items()}


def _shown(values: Sequence[Any]) -> str:
    """Return the first characters of the values that one source line reads."""
    starts: list[Any] = [value[:SHOWN] if isinstance(value, list) else value for value in values[:SHOWN]]
    texts = dict.fromkeys(map(repr, starts))
    text = ", ".join(texts)
    times = f" in {len(values):,} reads" if len(values) > 1 else ""
    return f"{'are' if len(texts) > 1 else 'is'} {text if len(text) <= SHOWN else text[:SHOWN] + '...'}{times}"
