"""Which launches have L1 reuse: the L1's counters say so, otherwise the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ioaware.machine import find_machine_or_file
from ioaware.result import Launch, Result, Traffic
from ioaware.simulation.accuracy import PredictedLaunch, Prediction
from ioaware.simulation.accuracy_record.counter_comparison import compare
from ioaware.simulation.accuracy_record.l1_reuse import (
    HITS,
    LOADS,
    L1Answer,
    L1Launch,
    answer_missing,
    l1_answer,
    read_l1_answers,
    reuse_by_launch,
)

BYTES = Traffic(100_000_000, 100_000_000)
NO_L1 = PredictedLaunch("k", 1_000, 1, 1, 1, (0, 1), (0, 1), False)
"""A launch that was predicted without an L1."""
POINT = Result("measure", "flash2", {"seq_len": 1}, hbm=BYTES, launches=(Launch("k", requested=BYTES, hbm=BYTES),))


def counted(hits: int) -> Result:
    return replace(POINT, launches=(replace(POINT.launches[0], counters={LOADS: 1_000_000, HITS: hits}),))


def answer(served: int | None) -> L1Answer:
    return L1Answer("flash2", {"seq_len": 1}, (L1Launch("k", 1_000_000, served),))


@pytest.mark.parametrize(("served", "reuse"), [(0, False), (1_000, False), (1_001, True), (None, True)])
def test_the_model_says_so_where_nothing_was_counted(served: int | None, reuse: bool) -> None:
    assert reuse_by_launch(POINT, POINT.launches, [NO_L1], answer(served)) == [reuse]


@pytest.mark.parametrize(("served", "reuse"), [(0, False), (1, False), (2, True)])
def test_a_prediction_with_an_l1_says_so_before_an_answer_of_an_earlier_model(served: int, reuse: bool) -> None:
    predicted = replace(NO_L1, l1_served_bytes=served)
    for earlier in (answer(0), answer(500_000)):
        assert reuse_by_launch(POINT, POINT.launches, [predicted], earlier) == [reuse]


@pytest.mark.parametrize(("hits", "reuse"), [(1_000, False), (1_001, True)])
def test_counters_of_the_l1_come_first(hits: int, reuse: bool) -> None:
    assert reuse_by_launch(counted(hits), counted(hits).launches, [replace(NO_L1, l1_served_bytes=500)], answer(500_000)) == [
        reuse
    ]


def test_a_call_has_reuse_where_a_launch_of_it_has() -> None:
    call = replace(POINT, telemetry={"steady_state": {}})
    two = replace(answer(0), launches=(L1Launch("a", 10, 0), L1Launch("b", 10, 5)))
    assert reuse_by_launch(call, call.launches, [NO_L1], two) == [True]
    assert reuse_by_launch(call, call.launches, [NO_L1], replace(two, launches=two.launches[:1])) == [False]
    assert reuse_by_launch(call, call.launches, [NO_L1], None) == [True]


@pytest.mark.parametrize(("served", "place"), [(0, "no L1 reuse"), (None, "L1 reuse"), (900_000, "L1 reuse")])
def test_requested_reads_have_a_place_for_each_class(served: int | None, place: str) -> None:
    """Where it is not known, no claim of exact bytes is made."""
    predicted = Prediction("flash2", {"seq_len": 1}, (NO_L1,))
    found = compare([POINT], [predicted], l1={"flash2 seq_len=1": answer(served)})
    assert next(one.place for one in found.comparisons) == f"requested reads, {place}"


@pytest.mark.parametrize(("served", "place"), [(0, "no L1 reuse"), (2, "L1 reuse"), (None, "L1 reuse")])
def test_a_prediction_with_an_l1_says_so_where_nothing_else_does(served: int | None, place: str) -> None:
    predicted = replace(NO_L1, l1_served_bytes=served)
    found = compare([POINT], [Prediction("flash2", {"seq_len": 1}, (predicted,))])
    assert found.comparisons[0].place == f"requested reads, {place}"


def test_answers_are_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "reuse.jsonl"
    asked: list[str] = []

    def made(measured: Result, _: object) -> L1Answer:
        asked.append(measured.target)
        return answer(7)

    for _ in range(2):
        answer_missing([POINT, counted(3)], find_machine_or_file("H200"), path, lambda _: None, made)
    assert asked == ["flash2"]
    assert read_l1_answers(path) == {"flash2 seq_len=1": answer(7)}


@pytest.mark.slow
def test_a_row_read_twice_hits_in_the_l1() -> None:
    machine = find_machine_or_file("H200")
    flash = Result("measure", "flash2", {"seq_len": 1024, "heads": 1, "head_dim": 64})
    (launch,) = l1_answer(flash, machine).launches
    assert launch.reuse is False
    (launch,) = l1_answer(Result("measure", "softmax_safe", {"rows": 1024, "cols": 4096}), machine).launches
    assert launch.reuse is True
