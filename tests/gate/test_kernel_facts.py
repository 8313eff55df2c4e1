"""Facts of compiled kernels: their direction.

Launches whose facts are unknown are tested too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.gate.kernel_facts import FACTS, facts_of, judge_fact
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
