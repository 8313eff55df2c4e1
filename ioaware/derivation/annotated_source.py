"""`AnnotatedSource`: the kernels' source with byte shares, as a value.

Each line has its share of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ioaware.derivation.derived import Derived
from ioaware.derivation.line_costs import LineCost, hot_lines, line_cost
from ioaware.derivation.line_report import Explanation, Line, Section, explain, share, value
from ioaware.display.units import bytes_text, times_text
from ioaware.result import SCHEMA

MAX_HOT = 8


@dataclass(frozen=True, slots=True)
class AnnotatedSource:
    """A derived result and its kernels line by line, each different launch once."""

    result: Derived
    kernels: tuple[Explanation, ...]

    @staticmethod
    def of(result: Derived) -> AnnotatedSource:
        """Annotate the source of a derived result's kernels."""
        return AnnotatedSource(result, tuple(explain(result)))

    def share_text(self, line: Line, kernel: Explanation) -> str:
        """Return the share of the kernel's bytes in percent, or the line's bytes.

        The line's bytes are returned where the kernel's depend on data.
        """
        if not line.accesses:
            return ""
        values = self.result.values
        part, own = share(line.bytes, kernel.bytes, values), value(line.bytes, values)
        return f"{part:.1%}" if part is not None else "data" if own is None else bytes_text(own, 3)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form: only the lines that move bytes."""
        return {
            "schema": SCHEMA,
            "target": self.result.target,
            "params": dict(self.result.params),
            "kernels": [self._kernel(kernel) for kernel in self.kernels],
        }

    def _repr_html_(self) -> str:
        """Return the source as HTML tables for notebooks, the hot lines first."""
        from ioaware.display.notebook import source_html

        return source_html(self.result.target, self._sections())

    def hot(self) -> list[tuple[Explanation, Section, LineCost]]:
        """Return the lines that move bytes, most bytes of the work first."""
        return [row for row in hot_lines(self.kernels, self.result.values) if row[2].bytes != 0]

    def _sections(self) -> Iterator[tuple[str, list[tuple[str, int, str, str]]]]:
        """Yield a title and lines with their shares.

        A line has the share with a bar, number, source, overfetch and formula. The hot lines come first.
        """
        yield "hot lines", [self._row(cost, _percent(cost)) for _, _, cost in self.hot()[:MAX_HOT]]
        for kernel in self.kernels:
            for section in kernel.sections:
                costs = [line_cost(line, kernel, self.result.values) for line in section.lines]
                yield section.function, [self._row(cost, self.share_text(cost.line, kernel)) for cost in costs]

    def _row(self, cost: LineCost, share: str) -> tuple[str, int, str, str]:
        over = f", overfetch {times_text(cost.overfetch)}" if cost.overfetch and cost.overfetch > 1 else ""
        return f"{share} {cost.bar}".strip(), cost.line.number, cost.line.text, _formula(cost.line) + over

    def _kernel(self, kernel: Explanation) -> dict[str, Any]:
        values = self.result.values
        return {
            "kernel": kernel.kernel,
            "launches": kernel.launches,
            "bytes": value(kernel.bytes, values),
            "formula": str(kernel.bytes),
            "conditions": [str(condition) for condition in kernel.conditions],
            "lines": [
                self._line(section, line_cost(line, kernel, values))
                for section in kernel.sections
                for line in section.lines
                if line.accesses
            ],
            "unplaced": [
                {"operation": access.operation, "tensor": access.tensor, "formula": str(access.bytes)}
                for access in kernel.unplaced
            ],
        }

    def _line(self, section: Section, cost: LineCost) -> dict[str, Any]:
        line = cost.line
        return {
            "function": section.function,
            "path": section.path,
            "line": line.number,
            "source": line.text.strip(),
            "kinds": line.kinds,
            "bytes": cost.bytes,
            "sector_bytes": cost.sector_bytes,
            "overfetch": cost.overfetch,
            "share": cost.share,
            "formula": str(line.bytes),
            "executions": [str(count) for count in line.executions],
            **({"beyond": line.beyond} if line.beyond else {}),
        }


def _percent(cost: LineCost) -> str:
    return "data" if cost.share is None else f"{cost.share:.1%}"


def _formula(line: Line) -> str:
    """Return the kinds of a line's accesses and their bytes.

    Empty for a line without any.
    """
    beyond = f", beyond {line.beyond}" if line.beyond else ""
    return f"{line.kinds} {line.bytes} bytes{beyond}" if line.accesses else ""
