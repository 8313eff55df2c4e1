"""Points in batches: each has an answer, also where a process dies."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ioaware.result_file import decode
from ioaware.sweep import batches
from ioaware.sweep.batches import execute_batch, run_batches
from ioaware.sweep.isolation import Outcome
from ioaware.sweep.points import Point, make_point
from ioaware.sweep.pool import PRELOAD, Answer, make_record_answer

PACKAGE = Path(__file__).parents[2]
SAID = f"{__name__}:said"


def points(count: int) -> list[Point]:
    return [make_point("predict", "flash2", {"seq_len": 64 + number}) for number in range(count)]


class InThisProcess:
    """Isolation whose jobs run here; those with a length of `DEADLY` have no answer."""

    DEADLY: ClassVar[int] = 70

    def __init__(self, entry: str, *, preload: Sequence[str], threads: int) -> None:
        assert entry == batches.ENTRY
        self.jobs: list[tuple[int, list[dict[str, Any]]]] = []

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert not self.jobs

    def submit(self, number: int, job: list[dict[str, Any]], timeout_s: float) -> None:
        self.jobs.append((number, job))

    def next(self) -> Outcome:
        number, jobs = self.jobs.pop()
        if any(job.get("params", {}).get("seq_len") == self.DEADLY or job.get("call") == "dies:now" for job in jobs):
            return Outcome(number, "signal", 11, None, "")
        return Outcome(number, "exit", 0, execute_batch(jobs), "")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Return the points that run again, each by itself."""
    seen: list[Point] = []

    def run(points: Sequence[Point], *, workers: int | None) -> list[Answer]:
        seen.extend(points)
        return [
            make_record_answer(point, json.loads(execute_batch([{**point.to_job(), "timeout_s": 1.0}]))[0]) for point in points
        ]

    monkeypatch.setattr(batches, "Isolation", InThisProcess)
    monkeypatch.setattr(batches, "run_points", run)
    return seen


def lengths(answers: Mapping[str, Answer] | Sequence[Answer]) -> list[int]:
    return sorted(decode(answer.record, "point").params["seq_len"] for answer in answers)  # type: ignore[type-var]


@pytest.mark.parametrize("count", [1, 3, 4, 5])
def test_every_point_has_its_own_answer(count: int, alone: list[Point]) -> None:
    answers = list(run_batches(points(count), size=2, workers=2))
    assert [(answer.point.params["seq_len"], decode(answer.record, "p").params["seq_len"]) for answer in answers] == [
        (value, value) for value in (answer.point.params["seq_len"] for answer in answers)
    ]
    assert lengths(answers) == list(range(64, 64 + count))
    assert alone == []


def test_points_of_a_process_that_dies_run_again_alone(alone: list[Point]) -> None:
    answers = list(run_batches(points(9), size=3, workers=2))
    assert lengths(answers) == list(range(64, 73))
    assert sorted(point.params["seq_len"] for point in alone) == [64, 67, 70]  # type: ignore[type-var]


def test_calls_run_beside_the_points(alone: list[Point]) -> None:
    texts: dict[str, str | None] = {}
    calls = {name: functools.partial(texts.__setitem__, name) for name in ("dies:now", SAID)}
    with batches.started(points(3), size=2, workers=2, calls=calls) as answers:
        assert lengths(list(answers)) == list(range(64, 67))
    assert (texts, alone) == ({"dies:now": None, SAID: "said"}, [])


def said() -> str:
    return "said"


def test_no_points_have_no_answers(alone: list[Point]) -> None:
    assert list(run_batches([])) == alone == []


def test_an_error_in_a_batch_is_that_points_alone() -> None:
    good, bad = points(1)[0].to_job(), Point("predict", "flash2", {"seq_len": -1}).to_job()
    records = [json.loads(one) for one in json.loads(execute_batch([{**job, "timeout_s": 1.0} for job in (bad, good)]))]
    assert "error" in records[0]
    assert records[1]["target"] == "flash2"


@pytest.mark.parametrize("name", sorted({name for names in PRELOAD.values() for name in names if name.startswith("ioaware.")}))
def test_what_is_imported_before_forking_exists(name: str) -> None:
    """A missing module is passed over, and every point would import its kernels again."""
    place = PACKAGE.joinpath(*name.split("."))
    assert place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def test_work_starts_before_the_first_answer_is_wanted(alone: list[Point], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(
        InThisProcess, "submit", lambda self, number, job, _: (sent.append(number), self.jobs.append((number, job)))
    )
    with batches.started(points(6), size=2, workers=2) as answers:
        assert sent == [0, 1]
        assert lengths(list(answers)) == list(range(64, 70))
    assert (sent, alone) == ([0, 1, 2], [])
