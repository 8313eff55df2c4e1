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


@dataclass(frozen=True)
class KernelShape:
    """Results of an operator that selects elements by a mask which a kernel computes."""

    of_all: Any
    of_none: Any


@dataclass(frozen=True, slots=True)
class DataRead:
    """One read of a tensor by host code."""

    where: str
    """Source line."""
    made_by: str
    """Operator that computed what is read."""
    value: Any
    is_random: bool = False
    """Whether the value follows from numbers that torch draws."""


@dataclass
class DataReads:
    """Values that host code read, in order."""

    values: list[DataRead] = field(default_factory=list[DataRead])
    probe: float = PROBES[0]
    """Value returned for a `KernelFloat`."""
    unknown_sizes: bool = False
    """Whether the size of a `KernelShape` is unknown, instead of the largest."""
    invented: dict[str, None] = field(default_factory=dict[str, None])
    """Lines that read what follows from integers without given values."""

    @property
    def kernel_floats(self) -> tuple[str, ...]:
        """Lines that read a number computed by a kernel."""
        return tuple(read.where for read in self.values if isinstance(read.value, KernelFloat))

    @property
    def kernel_shapes(self) -> tuple[str, ...]:
        """Lines that select elements by a mask that a kernel computes."""
        return tuple(read.where for read in self.values if isinstance(read.value, KernelShape))

    @property
    def random(self) -> bool:
        """Whether a value follows from numbers that torch draws."""
        return any(read.is_random for read in self.values)

    def same(self, other: DataReads) -> bool:
        """Return whether two runs read the same, but for what is drawn at random."""
        given, others = ([read for read in reads.values if not read.is_random] for reads in (self, other))
        return repr(given) == repr(others)


def assumptions(reads: DataReads) -> dict[str, str]:
    """Return a sentence for each source line that reads data, with the first values."""
    lines: dict[str, list[DataRead]] = {}
    for read in reads.values:
        lines.setdefault(read.where, []).append(read)
    return {where: _assumption(where, here) for where, here in lines.items()}


def _assumption(where: str, reads: Sequence[DataRead]) -> str:
    if all(read.is_random for read in reads):
        return f"assumes that no launch depends on the random numbers read at {where}, as in several draws"
    return f"assumes that the data read at {where} {_shown([read.value for read in reads])}"


def _shown(values: Sequence[Any]) -> str:
    """Return the first characters of the values that one source line reads."""
    starts: list[Any] = [value[:SHOWN] if isinstance(value, list) else value for value in values[:SHOWN]]
    texts = dict.fromkeys(map(repr, starts))
    text = ", ".join(texts)
    times = f" in {len(values):,} reads" if len(values) > 1 else ""
    return f"{'are' if len(texts) > 1 else 'is'} {text if len(text) <= SHOWN else text[:SHOWN] + '...'}{times}"
