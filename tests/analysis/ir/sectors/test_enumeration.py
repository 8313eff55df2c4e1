"""Launches without symbols are enumerated, and their numbers equal the formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ioaware.analysis.ir import kernel_totals
from ioaware.analysis.ir.sectors import enumeration
from tests.support.ir_zoo.compiled import Launched, Tensor, number
from tests.support.ir_zoo.zoo import ZOO

COUNTS = ("read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes", "flops")


def at(launched: Launched, values: Mapping[str, int]) -> Launched:
    """Return the launch with numbers for its symbols."""

    def argument(one: Any) -> Any:
        return replace(one, size=number(one.size, values)) if isinstance(one, Tensor) else number(one, values)

    arguments, grid = [argument(one) for one in launched.arguments], [number(size, values) for size in launched.grid]
    return replace(launched, arguments=arguments, grid=grid)


@pytest.mark.parametrize("name", ["triangular", "triangular_uneven", "nested", "serpentine_longest_first"])
def test_enumerated_numbers_equal_the_formulas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enumerated: list[object] = []

    def watched(*given: Any) -> enumeration.Totals | None:
        enumerated.append(found := enumeration.totals(*given))
        return found

    launched = ZOO[name]
    formulas = launched.derive()
    monkeypatch.setattr(kernel_totals, "totals", watched)
    for values in launched.points:
        numbers = at(launched, values).derive()
        assert any(found is not None for found in enumerated)
        assert numbers.exact
        for count in COUNTS:
            formula, plain = getattr(formulas, count), getattr(numbers, count)
            assert plain.evaluate({}) == formula.evaluate(values), (count, values)
