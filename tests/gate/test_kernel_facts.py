"""Facts of compiled kernels: their direction.

Launches whose facts are unknown are tested too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import NoConfigurationError
from ioaware.gate.kernel_facts import FACTS, configurations_of, facts_of, judge_fact, most_bytes
from ioaware.gate.verdict import Verdict
from ioaware.result import Traffic


def derived(*launches: dict[str, Any]) -> Any:
    known = {"origin": "triton", "tma_loads": 2, "local_bytes": 0, "registers": 40, "shared_bytes": 1024}
    known["requested"] = Traffic(60, 30, read_sector_bytes=64, write_sector_bytes=32)
    return SimpleNamespace(launches=[SimpleNamespace(**{**known, **launch}) for launch in launches])


def test_loads_are_summed_and_the_largest_of_the_rest_counts() -> None:
    found = facts_of(derived({}, {"registers": 50, "local_bytes": 16}, {"origin": "torch", "registers": None, "tma_loads": 9}))
    of_code = {"tma_loads": 4, "spill_bytes": 16, "registers": 50, "shared_bytes": 1024}
    assert found == {"sector_bytes": 192, "most_bytes": None, **of_code}


@pytest.mark.parametrize("field", ["tma_loads", "local_bytes", "registers", "shared_bytes"])
def test_a_fact_that_one_launch_does_not_know_is_unknown(field: str) -> None:
    found = facts_of(derived({}, {field: None}))
    assert [name for name, value in found.items() if value is None] == [
        name for name, fact in FACTS.items() if fact.field in (field, "")
    ]


@pytest.mark.parametrize("moved", [None, Traffic(60, 30), Traffic(60, 30, read_sector_bytes=64)])
def test_sectors_of_one_side_are_unknown(moved: Traffic | None) -> None:
    assert facts_of(derived({}, {"requested": moved}))["sector_bytes"] is None


@pytest.mark.parametrize("name", FACTS)
def test_the_direction_that_is_worse(name: str) -> None:
    worse, better = (Verdict.BETTER, Verdict.WORSE) if name == "tma_loads" else (Verdict.WORSE, Verdict.BETTER)
    assert [judge_fact(name, 2, new)[0] for new in (1, 2, 3, None)] == [better, Verdict.SAME, worse, Verdict.INCOMPARABLE]


def test_the_reason() -> None:
    assert judge_fact("tma_loads", 2_000, 0)[1] == "TMA loads: 2,000 -> 0"
    assert judge_fact("registers", 40, None)[1] == "registers of a thread: 40 -> unknown"


TUNED = {
    "one": ({"BLOCK": 1, "num_warps": 4}, {"BLOCK": 2, "num_warps": 4}, {"BLOCK": 2, "num_warps": 8}),
    "two": ({"STEP": 1}, {"STEP": 2}, {"STEP": 3}),
    "same": ({"BLOCK": 1, "num_stages": 2}, {"BLOCK": 1, "num_stages": 3}),
}


def moving(read_bytes: int | None, *, exact: bool = True) -> Any:
    return SimpleNamespace(requested=Traffic(read_bytes, 0), exact=exact, configurations=TUNED)


def test_configurations_that_may_move_other_bytes() -> None:
    others = [{"one:BLOCK": 1}, {"one:BLOCK": 2}, {"two:STEP": 1}, {"two:STEP": 2}, {"two:STEP": 3}]
    assert configurations_of(moving(100)) == others


def test_each_kernel_takes_the_configuration_that_moves_most() -> None:
    """Bytes of the other kernels count once.

    A configuration that does not run is left out.
    """
    moved = {"one:BLOCK1": 100, "one:BLOCK2": 130, "two:STEP1": 100, "two:STEP2": 90, "two:STEP3": None}

    def derive_with(chosen: Any) -> Any:
        ((name, value),) = chosen.items()
        if (found := moved[f"{name}{value}"]) is None:
            raise NoConfigurationError("none", "none")
        return moving(found)

    assert most_bytes(moving(100), derive_with) == 130
    moved["two:STEP2"] = 107
    assert most_bytes(moving(100), derive_with) == 137
    moved |= dict.fromkeys(("two:STEP1", "two:STEP2"), 80)
    assert most_bytes(moving(100), derive_with) == 130  # not below that of the formulas


def test_bytes_of_a_configuration_that_are_unknown() -> None:
    assert most_bytes(moving(100), lambda _: moving(90, exact=False)) is None
    assert most_bytes(moving(100, exact=False), lambda _: moving(90)) is None
    assert most_bytes(moving(None), lambda _: moving(90)) is None


def test_an_error_of_a_configuration_is_not_left_out() -> None:
    def derive_with(_: Any) -> Any:
        raise UsageError("not understood", "none")

    with pytest.raises(UsageError, match="not understood"):
        most_bytes(moving(100), derive_with)
