"""Executions that are remembered from one run of a target to the next."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from ioaware.capture import capture as capture_module
from ioaware.capture import index_data
from ioaware.capture.capture import alike_configurations
from ioaware.capture.executions import Executions
from ioaware.capture.other_draws import OTHER_SEEDS, Chance
from ioaware.compilation.execution.program_values import Moved
from ioaware.derivation.derive import derive
from ioaware.targets.loading import load_file
from ioaware.targets.target import load_target
from tests.support import SUPPORT

TARGETS: Any = load_file(SUPPORT / "targets/index_data_targets.py")


def moved(*contents: int) -> Moved:
    return Moved(read_bytes=4, read_names={"table"}, contents={"table": np.array(contents)})


@pytest.mark.parametrize("is_random", [False, True])
@pytest.mark.parametrize("is_other_draw", [False, True])
def test_other_contents_are_executed_again_unless_both_are_random(is_random: bool, is_other_draw: bool) -> None:
    known = Executions()
    known.add("launch", moved(1, 2))
    run = known.of_other_draw() if is_other_draw else known
    same = run.find("launch", {"table": np.array([1, 2])}, lambda _: is_random)
    assert same
    assert same.read_bytes == 4
    assert run.find("another launch", {"table": np.array([1, 2])}, lambda _: is_random) is None
    other = run.find("launch", {"table": np.array([2, 1])}, lambda _: is_random)
    assert (other is None) == (not (is_random and is_other_draw))


def test_a_caveat_of_one_run_is_not_one_of_the_next() -> None:
    known = Executions()
    known.add("launch", moved(1))
    found = known.find("launch", {"table": np.array([1])}, lambda _: False)
    assert found
    found.caveat = "for this run"
    again = known.find("launch", {"table": np.array([1])}, lambda _: False)
    assert again
    assert again.caveat == ""


def gathered_after_a_draw() -> object:
    random.random()
    return TARGETS.gathered()


def drawn_by_python() -> object:
    return TARGETS.drawn_by_python()


@pytest.mark.parametrize(("target", "times"), [(gathered_after_a_draw, 1), (drawn_by_python, 2 + len(OTHER_SEEDS) + 1)])
def test_runs_with_other_random_numbers_execute_other_contents_alone(
    target: Any, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn contents are executed for each draw, and once as unknown ones."""
    executed: list[object] = []
    execute = index_data.execute

    def counted(*args: Any) -> Moved:
        executed.append(args)
        return execute(*args)

    monkeypatch.setattr(index_data, "execute", counted)
    derive(load_target(target), {}, machine_code=False)
    assert len(executed) == times


@pytest.mark.parametrize(("are_alike", "times"), [(True, 1), (False, 2)])
def test_chance_is_looked_for_once_in_alike_configurations(
    are_alike: bool, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(capture_module, "look_for_chance", lambda *args: Chance(decides=bool(asked.append(args))))
    target = load_target(gathered_after_a_draw)
    with alike_configurations() if are_alike else nullcontext():
        found = [capture_module.capture(target, {}) for _ in range(2)]
    assert len(asked) == times
    assert not any(one.is_example for one in found)
