"""What a snapshot records beside formulas: constants, configurations, sizes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate import derived_snapshot
from ioaware.gate.derived_snapshot import Recorded, points_of, with_other_constants
from ioaware.gate.kernel_facts import FACTS
from ioaware.gate.row import Header
from ioaware.gate.tuning.configuration_bytes import AllConfigurations

HERE, THERE = {"n": 4, "m": 2}, {"n": 13, "m": 10}
NOW = Recorded(
    {"reads": "n"}, ((HERE, (4,)), ({"n": 13, "m": 2}, (13,))), {**dict.fromkeys(FACTS), "sector_bytes": 64},
    Header("3", "cuda:90", "0123"), ("n < 9",), 2, (96,),
)  # fmt: skip


def test_what_all_configurations_move_is_recorded() -> None:
    found = NOW.with_configurations(AllConfigurations(120, "2, 0123456789ab", "BLOCK=64"))
    assert found.facts == {**NOW.facts, "most_bytes": 120}
    assert (found.configurations, found.unknown) == ("2, 0123456789ab", "BLOCK=64")
    assert replace(found, facts=NOW.facts, configurations="", unknown="") == NOW


@pytest.mark.parametrize("second", [None, (THERE, (99,))])
def test_the_second_point_has_other_constants_where_it_can(second: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    derived, there = object(), object()
    points: list[Any] = []

    def derive_at(point: Any) -> Any:
        points.append(point)
        return there

    def other_point(*given: Any) -> Any:
        assert given == (derived, derive_at, ["reads"])
        return second

    monkeypatch.setattr(derived_snapshot, "other_point", other_point)
    monkeypatch.setattr(derived_snapshot, "facts_of", lambda one: {"sector_bytes": 128 if one is there else 0})
    found = with_other_constants(NOW, derived, derive_at)  # type: ignore[arg-type]
    assert points == ([THERE] if second else [])
    values, sectors = ((NOW.values[0], second), (128,)) if second else (NOW.values, (96,))
    assert found == replace(NOW, values=values, other_sectors=sectors)


def points(admits: Any = lambda point: True, check: Any = lambda sizes: None, **params: Any) -> tuple[Any, ...]:
    conditions = (SimpleNamespace(met=admits),)
    derived: Any = SimpleNamespace(
        params={"n": 64, "m": 8, "flag": True, **params}, symbols={"n": 64}, values={}, kernels=(), exact_here_only=False,
        validity=SimpleNamespace(conditions=conditions, check=check),
    )  # fmt: skip
    return points_of(derived)


def test_the_second_point_is_the_first_at_which_the_formulas_hold() -> None:
    first = {"n": 64, "m": 8}  # m is a constant, and a flag is no size
    assert points() == (first, {"n": 103, "m": 8})
    assert points(lambda point: point["n"] % 2 == 0) == (first, {"n": 128, "m": 8})
    assert points(lambda point: point["n"] < 90) == (first, {"n": 80, "m": 8})
    assert points(lambda point: point["n"] < 70) == (first, {"n": 33, "m": 8})
    assert points(lambda point: False) == (first,)
    checked: list[Any] = []

    def check(sizes: Any) -> None:
        checked.append(sizes)
        if sizes["n"] == 103:
            raise UsageError("too large", "Take less.")

    assert points(check=check) == (first, {"n": 128, "m": 8})
    assert checked == [{"n": 103}, {"n": 128}]
