"""The script that times derivations: its numbers are there.

Those over their limit are marked.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from ioaware.targets.loading import load_file
from tests.support import SUPPORT

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_derive.py"
TARGETS = SUPPORT / "targets/uncompiled_targets.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


def test_measurements_of_one_process(script: ModuleType, tmp_path: Path) -> None:
    target = f"{TARGETS}:plain n=50"
    first = script.child("first", target, str(tmp_path))
    points, parts = (script.once(stage, target) for stage in ("points", "parts"))  # as in separate processes
    assert set(first) == {"first", "cpu", "again"}, first
    assert set(points) == {"points", "at"}, points
    assert points["at"] == "any"
    assert set(parts) == {"imports", "formulas", "compile"}, parts
    assert all(seconds > 0 for found in (first, parts) for seconds in found.values())


def test_a_target_is_measured_in_four_processes_one_of_them_without_caches(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches_of: dict[str, str] = {}

    def child(stage: str, target: str, caches: str, timeout_s: float = 0) -> dict[str, float]:
        caches_of[stage] = caches
        return {stage: 1.0}

    monkeypatch.setattr(script, "child", child)
    monkeypatch.setattr(script, "_rounds", int)
    assert set(script.measured("file.py:function")) == {"target", "yard", *caches_of}
    assert set(caches_of) == {"first", "fresh", "points", "parts"}
    assert caches_of["first"] == caches_of["fresh"] == caches_of["points"] != caches_of["parts"]


def test_a_target_that_cannot_be_derived_has_a_reason(script: ModuleType) -> None:
    found = script.measured(f"{TARGETS.with_name('nonsense.py')}:plain n=50")
    assert "nonsense" in found["failed"]
    assert "nonsense" in script.line(found)


def test_times_over_their_limit_are_marked(script: ModuleType) -> None:
    times = {"first": 1.9, "again": 0.2, "fresh": 0.05, "points": 1.5}
    parts = {"cpu": 1.1, "imports": 0.6, "formulas": 0.3, "compile": 0.2}
    text = script.line({"target": "x", **times, **parts, "yard": 0.1})
    assert text.split() == ["x", "1.900", "0.200!", "0.050", "1.500!", "1.100", "0.600", "0.300", "0.200", "0.100"]
