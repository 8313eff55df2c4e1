"""`AnnotatedSource`: the kernels' source with each line's share of the bytes, as a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ioaware.derivation.derive import Derived
from ioaware.derivation.line_report import Explanation, Line, explain, share, value
from ioaware.display.units import bytes_text
from ioaware.result import SCHEMA


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
        """Return the share of the kernel's bytes in percent, or the line's bytes where the kernel's depend on data."""
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
        """Return the source as HTML tables for notebooks."""
        from ioaware.display.notebook import source_html

        return source_html(self.result.target, self._sections())

    def _sections(self) -> Iterator[tuple[str, list[tuple[str, int, str, str]]]]:
        """Yield the title of each function and its lines: share, number, source, formula."""
        for kernel in self.kernels:
            for section in kernel.sections:
                rows = [(self.share_text(line, kernel), line.number, line.text, _formula(line)) for line in section.lines]
                yield section.function, rows

    def _kernel(self, kernel: Explanation) -> dict[str, Any]:
        values = self.result.values
        return {
            "kernel": kernel.kernel,
            "launches": kernel.launches,
            "bytes": value(kernel.bytes, values),
            "formula": str(kernel.bytes),
            "conditions": [str(condition) for condition in kernel.conditions],
            "lines": [
                {
                    "function": section.function,
                    "path": section.path,
                    "line": line.number,
                    "source": line.text.strip(),
                    "kinds": line.kinds,
                    "bytes": value(line.bytes, values),
                    "share": share(line.bytes, kernel.bytes, values),
                    "formula": str(line.bytes),
                    "executions": [str(count) for count in line.executions],
                }
                for section in kernel.sections
                for line in section.lines
                if line.accesses
            ],
            "unplaced": [
                {"operation": access.operation, "tensor": access.tensor, "formula": str(access.bytes)}
                for access in kernel.unplaced
            ],
        }


def _formula(line: Line) -> str:
    """Return the kinds of a line's accesses and their bytes; empty for a line without any."""
    return f"{line.kinds} {line.bytes} bytes" if line.accesses else ""
