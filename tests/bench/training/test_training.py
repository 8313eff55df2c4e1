"""`ioaware bench training`: records, failures, and exit codes, without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware.bench.bench_records import append_record
from ioaware.bench.training import training_run
from ioaware.bench.training.training_record import (
    TrainingEntry,
    TrainingPoint,
    TrainingRecord,
    read_training,
)
from ioaware.bench.training.training_run import training_points
from ioaware.bench.training.training_summary import curve_sentences, largest_loss_difference, tokens_per_second
from ioaware.bench.training.training_text import draw_batch, standard_library_text
from ioaware.cli import training_bench
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import DataError

POINT = TrainingPoint("speed", "small", 1024, 8)
SPEED = TrainingRecord(
    POINT,
    (
        TrainingEntry("eager", "failed", "out of memory"),
        TrainingEntry("sdpa", "ok", step_ns=(2e6, 2e6, 4e6), loss_error=1e-6, peak_bytes=2**30),
        TrainingEntry("ioaware", "ok", step_ns=(1e6, 1e6, 2e6), loss_error=2e-6, peak_bytes=2**30),
    ),
    environment={"gpu": "NVIDIA H200"},
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "training.jsonl"
    curve = TrainingRecord(TrainingPoint("loss", "small", 1024, 8, 1), (TrainingEntry("sdpa", "ok", losses=(10.0, 9.5)),))
    for record in (SPEED, curve):
        append_record(path, record)
    assert list(read_training(path)) == [SPEED, curve]


@pytest.mark.parametrize(
    ("entry", "name", "value"),
    [
        (0, "step_ns", [1.0]), (0, "status", "slow"), (0, "status", "ok"), (0, "colour", "red"), (0, "reason", 1),
        (1, "step_ns", [0.0]), (1, "step_ns", [-2e6]), (1, "peak_bytes", -1), (1, "loss_error", -1e-6),
    ],
)  # fmt: skip
def test_an_invalid_record_is_refused_with_its_line(entry: int, name: str, value: Any, tmp_path: Path) -> None:
    data = json.loads(json.dumps(SPEED.to_dict()))
    data["entries"][entry][name] = value
    path = tmp_path / "training.jsonl"
    path.write_text(json.dumps(data) + "\n")
    with pytest.raises(DataError, match=r"training.jsonl:1: not a record"):
        read_training(path)


@pytest.mark.parametrize("content", ['{"my": "json"}', '{"my": "json"}\n', "text\n", json.dumps(SPEED.to_dict())])
def test_a_file_of_another_kind_is_refused_unchanged(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before a GPU is looked for. So is a last line without an end."""
    path = tmp_path / "training.jsonl"
    path.write_text(content)
    assert run(["bench", "training", "-o", str(path)], Settings()) == 6
    assert "training.jsonl" in capsys.readouterr().err
    assert path.read_text() == content


def test_points_are_the_models_at_each_context_with_as_many_tokens_a_step() -> None:
    points = training_points(["small", "medium"], [1024, 4096], 60)
    assert [point.batch for point in points] == [8, 2, 8, 2, 8, 8]
    assert {point.tokens for point in points} == {8192}
    assert [point.seed for point in points if point.kind == "loss"] == [0, 1]
    assert all(point.kind == "speed" for point in training_points(["small"], [1024], 0))


def test_batches_are_pieces_of_the_text_and_repeat_with_the_seed() -> None:
    text = torch.frombuffer(bytearray(standard_library_text()), dtype=torch.uint8)
    drawn = [draw_batch(text, 3, 50, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert all(bytes(row.to(torch.uint8).tolist()) in standard_library_text() for row in drawn[0])


class FakeTrainer:
    """A trainer whose eager attention runs out of memory.

    A step halves the loss.
    """

    def __init__(self, point: TrainingPoint) -> None:
        self.name, self.losses, self.optimizer = "", 8.0, self

    def use(self, attention: str) -> None:
        self.name = attention

    def step(self) -> torch.Tensor:
        if self.name == "eager":
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.losses /= 2
        return torch.tensor(self.losses)

    def loss_error(self, attention: str) -> float:
        self.use(attention)
        return 0.5 if attention == "ioaware" else 1e-4

    def zero_grad(self, *, set_to_none: bool) -> None:
        """Stand in for the optimizer's."""


def test_a_loss_that_is_off_and_a_lack_of_memory_are_entries_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 7)
    raced: list[str] = []
    monkeypatch.setattr(training_run, "StepClock", lambda trainer, gpu, snapshots: None)
    monkeypatch.setattr(training_run, "race", lambda names, rounds, clock: raced.extend(names) or {"sdpa": [1e6] * rounds})
    session: Any = training_run.TrainingSession(None, frozenset(), {"gpu": "fake"})  # pyright: ignore[reportArgumentType]
    make: Any = FakeTrainer
    found = training_run.run_training(POINT, session, make, rounds=2, loss_steps=0)
    assert raced == ["sdpa"]
    assert [(entry.attention, entry.status, entry.reason, entry.step_ns) for entry in found.entries] == [
        ("eager", "failed", "out of memory", ()),
        ("sdpa", "ok", "", (1e6, 1e6)),
        ("ioaware", "wrong", "its loss is 0.5 off float32's", ()),
    ]
    curves = training_run.run_training(TrainingPoint("loss", "small", 8, 1), session, make, rounds=2, loss_steps=3).entries
    assert [(entry.status, entry.losses) for entry in curves] == [("failed", ()), ("ok", (4, 2, 1)), ("ok", (4, 2, 1))]


def test_rates_and_differences() -> None:
    assert tokens_per_second(SPEED, "ioaware") == pytest.approx(8192 / 1e-3)
    assert tokens_per_second(SPEED, "eager") is None
    assert largest_loss_difference((10.0, 5.0), (10.0, 4.0)) == pytest.approx(0.25)


def test_the_distance_of_loss_curves_is_said_beside_that_of_two_seeds() -> None:
    def curves(seed: int, **losses: tuple[float, ...]) -> TrainingRecord:
        entries = tuple(TrainingEntry(name, "ok", losses=values) for name, values in losses.items())
        return TrainingRecord(TrainingPoint("loss", "small", 1024, 8, seed), entries)

    first = curves(0, sdpa=(10.0, 4.0), ioaware=(10.0, 4.02))
    assert list(curve_sentences([first, curves(1, sdpa=(10.0, 5.0))])) == [
        "GPT-2 small, context 1,024, loss, seed 0: ioaware ends at 4.0200, SDPA at 4.0000; at most 0.50 % apart",
        "SDPA with another seed: at most 25.00 % apart",
    ]


def test_the_exit_code_is_that_of_our_attention() -> None:
    def code(status: Any) -> int:
        return training_bench._exit_code([TrainingRecord(POINT, (TrainingEntry("ioaware", status),))])

    assert [code(status) for status in ("ok", "wrong", "failed")] == [0, 1, 3]
    assert training_bench._exit_code([]) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["training", "--pass", "forward"], "bench training has no --pass: it belongs to bench attention"),
        (["attention", "--loss-steps", "5"], "bench attention has no --loss-steps: it belongs to bench training"),
        (["training", "--model", "large"], "there is no GPT-2 'large' here"),
    ],
)
def test_options_of_the_other_subject_are_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *arguments], Settings()) == 2
    assert says in capsys.readouterr().err
