"""The script that measures how long derivations take: its numbers are there, and what is over its limit is marked."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from ioaware.instruments.loading import load_file

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_derive.py"
TARGETS = Path(__file__).parents[1] / "instruments" / "uncompiled_targets.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


def test_a_target_is_measured(script: ModuleType) -> None:
    found = script.measured(f"{TARGETS}:plain n=50")
    assert "failed" not in found, found
    assert set(script.LIMITS) < set(found)
    assert found["again"] < found["fresh"]
    assert all(found[part] > 0 for part in script.PARTS)
    assert found["imports"] + found["formulas"] < 2 * found["first"]
    assert found["at"] == "any"


def test_one_that_cannot_be_derived_says_why(script: ModuleType) -> None:
    found = script.measured(f"{TARGETS.with_name('nonsense.py')}:plain n=50")
    assert "nonsense" in found["failed"]
    assert "nonsense" in script.line(found)


def test_what_is_over_its_limit_is_marked(script: ModuleType) -> None:
    times = {"first": 1.9, "again": 0.2, "fresh": 0.05, "points": 1.5}
    parts = {"cpu": 1.1, "imports": 0.6, "formulas": 0.3, "compile": 0.2}
    text = script.line({"target": "x", **times, **parts, "yard": 0.1})
    assert text.split() == ["x", "1.900", "0.200!", "0.050", "1.500!", "1.100", "0.600", "0.300", "0.200", "0.100"]
