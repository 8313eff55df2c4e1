"""Hold bytes and FLOPs of launches as formulas, add them up, and evaluate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import sympy

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.analysis.formulas.functions import free_symbols
from ioaware.analysis.ir import Count, KernelTraffic
from ioaware.result import Traffic


@dataclass(frozen=True, slots=True)
class Formulas:
    """Bytes and FLOPs of one or more launches as formulas of the symbolic parameters.

    None means unknown.
    """

    read_bytes: Count
    write_bytes: Count
    atomic_bytes: Count
    flops: Count
    read_sector_bytes: Count | None
    write_sector_bytes: Count | None

    def __add__(self, other: Formulas) -> Formulas:
        return Formulas(
            self.read_bytes + other.read_bytes,
            self.write_bytes + other.write_bytes,
            self.atomic_bytes + other.atomic_bytes,
            self.flops + other.flops,
            _sum(self.read_sector_bytes, other.read_sector_bytes),
            _sum(self.write_sector_bytes, other.write_sector_bytes),
        )

    def traffic(self, values: Mapping[str, int]) -> Traffic:
        """Return the bytes at these values, with the formulas.

        None where a value depends on data.
        """
        return Traffic(
            read_bytes=value_at(self.read_bytes, values),
            write_bytes=value_at(self.write_bytes, values),
            atomic_bytes=value_at(self.atomic_bytes, values),
            read_sector_bytes=value_at(self.read_sector_bytes, values),
            write_sector_bytes=value_at(self.write_sector_bytes, values),
            read_formula=str(self.read_bytes),
            write_formula=str(self.write_bytes),
        )


def formulas_of(kernel: KernelTraffic) -> Formulas:
    """Return the totals of one launch."""
    return Formulas(
        kernel.read_bytes,
        kernel.write_bytes,
        kernel.atomic_bytes,
        kernel.flops,
        kernel.read_sector_bytes,
        kernel.write_sector_bytes,
    )


def add_up(parts: Sequence[Formulas]) -> Formulas:
    nothing = Count(sympy.S.Zero)
    first, *rest = parts or [Formulas(nothing, nothing, nothing, nothing, nothing, nothing)]
    return sum(rest, first)


def value_at(count: Count | None, values: Mapping[str, int]) -> int | None:
    """Return the count at these values.

    None where it depends on data or does not hold.
    """
    if count is None or _names(count) - values.keys():
        return None
    try:
        return int(cast(int, count.evaluate(values)))
    except OutsideFormulaError:
        return None


def _names(count: Count) -> frozenset[str]:
    return frozenset(map(str, free_symbols(count.expr)))


def _sum(one: Count | None, other: Count | None) -> Count | None:
    return None if one is None or other is None else one + other
