"""What each source line costs at the given values, in order of bytes.

A cost is bytes, sectors, overfetch and share of its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.analysis.ir import Count
from ioaware.derivation.line_report import Explanation, Line, Section
from ioaware.machine.model import SECTOR_BYTES

HEATS = 10
FULL, HALF = "\u2588", "\u258c"


@dataclass(frozen=True, slots=True)
class LineCost:
    """A line with its numbers over all launches of one form.

    None where data decide or the formula has no value there.

    `sector_bytes` are those of the 32-byte sectors that its accesses touch. `share` is of the bytes of the kernel.
    """

    line: Line
    bytes: int | None
    sector_bytes: int | None
    runs: int | None
    share: float | None

    @property
    def overfetch(self) -> float | None:
        """Bytes fetched per byte used: 1 for full sectors, 8 for 4 bytes of each.

        Below 1 where lanes share bytes.
        """
        return self.sector_bytes / self.bytes if self.bytes and self.sector_bytes is not None else None

    @property
    def heat(self) -> int:
        """The share in tenths, rounded up.

        It is 0 for a line that moves nothing, and 10 for one that moves all.
        """
        return 0 if not self.share else min(HEATS, int(self.share * HEATS * 0.999999) + 1)

    @property
    def bar(self) -> str:
        """The heat as a bar of five characters."""
        return (FULL * (self.heat // 2) + HALF * (self.heat % 2)).ljust(HEATS // 2)


def line_cost(line: Line, kernel: Explanation, values: Mapping[str, int]) -> LineCost:
    """Return the numbers of a line of a kernel, for one launch."""
    own, whole = _at(line.bytes, values), _at(kernel.bytes, values)
    sectors = [access.sectors for access in line.accesses]
    known = [_at(count, values) for count in sectors if count is not None]
    complete = len(known) == len(sectors) and None not in known
    runs = [_at(count, values) for count in line.executions]
    return LineCost(
        line,
        own,
        SECTOR_BYTES * sum(cast("list[int]", known)) if complete and line.accesses else None,
        max(cast("list[int]", runs)) if runs and None not in runs else None,
        own / whole if own is not None and whole else None,
    )


def hot_lines(kernels: Sequence[Explanation], values: Mapping[str, int]) -> list[tuple[Explanation, Section, LineCost]]:
    """Return the lines whose own instructions move bytes.

    Most bytes of the work come first, and unknown ones before all.

    Their share is of the work. A line that only calls a function of which the lines are shown is left out: its bytes would
    count twice.
    """
    parts = [_at(kernel.bytes, values) for kernel in kernels]
    known = [part * kernel.launches for part, kernel in zip(parts, kernels, strict=True) if part is not None]
    whole = sum(known) if len(known) == len(kernels) else None
    found: list[tuple[Explanation, Section, LineCost]] = []
    for kernel in kernels:
        for section in kernel.sections:
            for line in section.lines:
                if own_line(line, section):
                    cost = line_cost(line, kernel, values)
                    share = cost.bytes * kernel.launches / whole if cost.bytes is not None and whole else None
                    found.append((kernel, section, replace(cost, share=share)))
    return sorted(found, key=lambda row: -(float("inf") if row[2].bytes is None else row[2].bytes * row[0].launches))


def own_line(line: Line, section: Section) -> bool:
    """Return whether an instruction of the line itself moves bytes.

    It does not count if only one of a function that it calls does.
    """
    return any(access.source.endswith(f"{section.path}:{line.number}") for access in line.accesses)


def _at(count: Count, values: Mapping[str, int]) -> int | None:
    """Return a count at the values.

    None where a name has no value, or the formula none there.
    """
    if count.symbols - values.keys():
        return None
    try:
        return int(cast(int, count.evaluate(values)))
    except OutsideFormulaError:
        return None
