"""Bytes with each autotuned configuration: the most, and a fingerprint of all."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import NoConfigurationError
from ioaware.gate.tuning import configuration_bytes
from ioaware.gate.tuning.configuration_bytes import AllConfigurations, all_configurations
from ioaware.result import Traffic
from tests.gate.tuning.test_configurations import TUNED

EACH = {"one:BLOCK1": 100, "one:BLOCK2": 130, "two:STEP1": 100, "two:STEP2": 90, "two:STEP3": None}
"""Bytes with each configuration; None for one that does not run."""


def moving(read_bytes: int | None, *, exact: bool = True, sectors: int = 0) -> Any:
    requested = Traffic(read_bytes, 0)
    return SimpleNamespace(requested=requested, exact=exact, configurations=TUNED, params={}, symbols={}, sectors=sectors)


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the bytes and sectors of the stand-ins above."""

    def record(derived: Any) -> Any:
        facts = {"sector_bytes": derived.sectors, "tma_loads": 0}
        values = (({"n": 4}, (derived.requested.read_bytes,)),)
        return SimpleNamespace(texts={"reads": "n"}, values=values, facts=facts, other_sectors=())

    monkeypatch.setattr(configuration_bytes, "recorded", record)


def found(each: Mapping[str, Any], base: Any = None) -> AllConfigurations:
    def derive(chosen: Mapping[str, Any], _: Mapping[str, int]) -> Any:
        ((name, value),) = chosen.items()
        moved = each[f"{name}{value}"]
        if moved is None:
            raise NoConfigurationError("none", "none")
        return moving(moved) if isinstance(moved, int) else moved

    return all_configurations(base or moving(100), derive)


@pytest.mark.parametrize(
    ("changed", "most"),
    [
        ({}, 130),
        ({"two:STEP2": 107}, 137),  # bytes of the other kernel count once
        ({"two:STEP1": 80, "two:STEP2": 80}, 130),  # not below that of the formulas
        ({"one:BLOCK1": 140}, 140),  # an earlier one may be the largest
    ],
)
def test_each_kernel_takes_the_configuration_that_moves_most(changed: Mapping[str, Any], most: int) -> None:
    assert found(EACH | changed).most_bytes == most


@pytest.mark.parametrize(
    "changed",
    [
        {"two:STEP2": 91},  # below the most
        {"one:BLOCK1": 99, "two:STEP2": 91},
        {"two:STEP3": 100},  # it runs now
        {"two:STEP2": None},
        {"one:BLOCK2": moving(130, sectors=32)},
    ],
)
def test_the_fingerprint_changes_with_each_configuration(changed: Mapping[str, Any]) -> None:
    before, after = found(EACH), found(EACH | changed)
    assert (before.most_bytes, before.fingerprint[:3]) == (after.most_bytes, "5, ")
    assert before == found(dict(EACH))
    assert before.fingerprint != after.fingerprint


def test_bytes_that_are_unknown() -> None:
    unknown = AllConfigurations(None, "", "one with BLOCK=2")
    assert found(EACH | {"one:BLOCK2": moving(90, exact=False)}) == unknown
    assert found(EACH | {"one:BLOCK2": moving(None)}) == unknown
    assert found(EACH, moving(100, exact=False)) == AllConfigurations(None, "", "the first configuration")


def test_a_call_without_a_choice() -> None:
    alone: Any = SimpleNamespace(requested=Traffic(100, 0), exact=True, configurations={})
    assert found({}, alone) == AllConfigurations(100, "")


def test_an_error_of_a_configuration_is_not_left_out() -> None:
    def derive(_: Any, __: Any) -> Any:
        raise UsageError("not understood", "none")

    with pytest.raises(UsageError, match="not understood"):
        all_configurations(moving(100), derive)


def test_each_configuration_is_derived_at_both_points(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[tuple[Any, Any]] = []

    def derive(chosen: Mapping[str, Any], at: Mapping[str, int]) -> Any:
        derived.append((dict(chosen), dict(at)))
        return moving(100)

    def second(now: Any, _: Any, derive_at: Any) -> Any:
        derive_at({"n": 8})
        return now

    monkeypatch.setattr(configuration_bytes, "with_other_constants", second)
    all_configurations(moving(100), derive, {"one:BLOCK": 2})
    assert derived == [({"two:STEP": step}, at) for step in (1, 2, 3) for at in ({}, {"n": 8})]
