"""A sample of lines in a cache that is smaller by as much stands for all lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ioaware.machine import find_machine_or_file
from ioaware.result import ParamValue
from ioaware.simulation import launch_replay, sampling, sequence
from ioaware.simulation.addresses.address_blocks import Blocks, Rectangle
from ioaware.simulation.addresses.taken_lines import is_taken
from ioaware.simulation.l2.cache import L2
from ioaware.simulation.launch_replay import MAX_LINE_BYTES, MIN_LINE_BYTES
from ioaware.simulation.sampling import FEWEST_LINES, MAX_EVENTS, PILOT, Census, Sample, choose_sample
from ioaware.simulation.simulate import simulate
from ioaware.targets.target import load_target


def census(lines: Sequence[np.ndarray]) -> Census:
    """Return the census of the lines of each tensor, of 128 bytes."""
    layouts = [Blocks(128, 1, 128, 1, 200_000 * number) for number in range(len(lines))]
    found = Census(layouts, [100_000 * 128] * len(lines))
    for number, each in enumerate(lines):
        taken, _, _ = layouts[number].lines(128 * each, Rectangle(0, 1, 128, 128), found.of(number))
        assert taken.size == pytest.approx(each.size / PILOT, abs=PILOT + 0.1 * each.size / PILOT)
    return found


@pytest.mark.parametrize("every", [2, 3, 7, 16])
def test_one_of_so_many_neighbours_is_taken(every: int) -> None:
    lines = np.arange(every * 500)
    taken = is_taken(lines, every).reshape(500, every)
    assert (taken.sum(axis=1) == 1).all()
    assert taken.sum(axis=0).min() > 500 / every / 2, "every place is taken about equally often"


def test_strided_accesses_are_taken_as_often() -> None:
    assert np.count_nonzero(is_taken(np.arange(0, 80_000, 8), 8)) == pytest.approx(10_000 / 8, rel=0.1)


def test_a_sample_has_the_events_of_a_replay() -> None:
    found = census([np.tile(np.arange(10_000), 40), np.arange(10)])
    sample = choose_sample(found, 4 * MAX_EVENTS // PILOT)
    assert (sample.every, sample.every_of) == (4, (4, 1))
    taken = sample.lines(0)
    assert taken is not None
    assert np.count_nonzero(is_taken(found.lines[0], taken.every)) == 2500
    assert sample.lines(1) is None, "all are taken"
    assert [sample.scale_of(0), sample.scale_of(1)] == [4.0, 4.0]
    assert choose_sample(census([np.arange(10_000)]), 4 * MAX_EVENTS // PILOT) == Sample(), "few accesses are not sampled"


def test_few_lines_that_are_accessed_too_often_are_thinned() -> None:
    found = census([np.arange(100_000), np.tile(np.arange(600), 2 * MAX_EVENTS // 100)])
    sample = choose_sample(found, 100 * MAX_EVENTS // PILOT)
    assert sample.every_of == (100, 12)
    taken = sample.lines(1)
    assert taken is not None
    number = np.count_nonzero(is_taken(found.lines[1], taken.every))
    assert number >= FEWEST_LINES
    assert sample.block_bytes([Blocks(128, 1, 128, 1)] * 2)[1] * number * sample.scale_of(1) == pytest.approx(600 * 128)


@pytest.mark.parametrize(
    ("target", "params"),
    [
        ("flash2", {"seq_len": 32768, "heads": 4, "head_dim": 128}),
        pytest.param("flash1", {"seq_len": 4096, "heads": 8, "head_dim": 64}, marks=pytest.mark.slow),
        pytest.param("standard", {"seq_len": 8192, "heads": 1, "head_dim": 64}, marks=pytest.mark.slow),
        pytest.param("flash2", {"seq_len": 65536, "heads": 2, "head_dim": 128, "causal": True}, marks=pytest.mark.slow),
    ],
)
def test_a_sampled_replay_agrees_with_a_full_one(
    target: str, params: dict[str, ParamValue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both with the same lines: those of a replay that is too long for smaller ones."""
    loaded = load_target(target)
    monkeypatch.setattr(sequence, "_finest_layouts", sequence.choose_layouts)

    def moved() -> tuple[list[float], list[float], bool]:
        found = simulate(loaded, loaded.resolve(params), machine=find_machine_or_file("H200"))
        assert found.hbm is not None
        ends = [float(end or 0) for pair in (found.read_range, found.write_range) for end in pair]
        numbers = [float(one or 0) for one in (found.hbm.read_bytes, found.hbm.write_bytes)]
        return numbers, ends, any("lines of the L2 is replayed" in note for note in found.notes)

    full, full_ends, sampled = moved()
    assert not sampled
    monkeypatch.setattr(sampling, "MAX_EVENTS", 1_000)
    some, ends, sampled = moved()
    assert sampled
    assert some == pytest.approx(full, rel=0.03)
    assert ends == pytest.approx(full_ends, rel=0.08)


def test_launches_with_skew_have_few_events_too(monkeypatch: pytest.MonkeyPatch) -> None:
    most, replayed = 2_000, list[int]()
    monkeypatch.setattr(sampling, "MAX_EVENTS", most)
    monkeypatch.setattr(L2, "run", lambda self, events: replayed.append(events.size))
    loaded = load_target("flash2")
    params = loaded.resolve({"seq_len": 16384, "heads": 1, "head_dim": 64})
    simulate(loaded, params, machine=find_machine_or_file("H200"))
    assert len(replayed) == 5, "nominal, two capacities, replacement by age, and skew"
    assert 0 < max(replayed) < 3 * most


def test_programs_in_step_are_replayed_with_clocks_of_their_own_too(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = list[int]()
    monkeypatch.setattr(L2, "run", lambda self, events: replayed.append(events.size))
    loaded = load_target("flash2")
    simulate(loaded, loaded.resolve({"seq_len": 32768, "heads": 2, "head_dim": 128}), machine=find_machine_or_file("H200"))
    assert len(replayed) == 6, "nominal, two capacities, replacement by age, skew, and clocks"
    assert replayed[-1] > replayed[0], "programs of different GPCs reach a line at different times"


def test_a_launch_with_too_many_accesses_out_of_step_is_simulated_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_target("flash2")
    params = loaded.resolve({"seq_len": 32768, "heads": 2, "head_dim": 128})
    before = simulate(loaded, params, machine=find_machine_or_file("H200"))

    def refuse(*_: object) -> None:
        raise ValueError("3 executions are too many to enumerate")

    monkeypatch.setattr(launch_replay, "placed_by_clocks", refuse)
    found = simulate(loaded, params, machine=find_machine_or_file("H200"))
    assert found.hbm == before.hbm
    assert "ranges leave out that programs may drift apart: 3 executions are too many to enumerate" in found.notes


def test_lines_are_as_small_as_a_replay_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = list[list[Blocks]]()
    original = sequence.choose_layouts

    def choose(*given: Any) -> list[Blocks]:
        layouts.append(original(*given))
        return layouts[-1]

    monkeypatch.setattr(sequence, "choose_layouts", choose)
    loaded = load_target("flash2")
    params = loaded.resolve({"seq_len": 131072, "heads": 2, "head_dim": 128})
    for most in (300_000, 20_000):
        monkeypatch.setattr(sampling, "MAX_EVENTS", most)
        simulate(loaded, params, machine=find_machine_or_file("H200"), ranges=False)
    coarse, fine, again, less = (max(one.line_bytes for one in each) for each in layouts)
    assert coarse == again == MAX_LINE_BYTES
    assert coarse > less > fine >= MIN_LINE_BYTES
