"""Trials and references on functions of plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ioaware.case import Work
from ioaware.gate.untrusted.input_contents import other_contents
from ioaware.gate.untrusted.trials import Trials, run_trials
from ioaware.targets.target import Target

X = torch.arange(1.0, 5.0)
(OTHER,) = other_contents([X])


def target_of(build: Callable[..., object]) -> Callable[[], Target]:
    return lambda: Target("t", (), lambda device, **params: build(**params))


def twice(**_: Any) -> Callable[[], torch.Tensor]:
    x = X.clone()
    return lambda: x * 2


def trials_of(build: Callable[..., object], reference: Callable[..., object] | None = None, **options: Any) -> Trials:
    return run_trials(target_of(build), {}, reference=target_of(reference) if reference else None, **options)


def values(call: Any) -> list[float]:
    return call.outputs[0].tolist()


def test_contents_alternate_and_begin_anew() -> None:
    trials = trials_of(twice)
    one, other = (X * 2).tolist(), (OTHER * 2).tolist()
    assert trials.names == ("x",)
    assert [inputs[0].tolist() for inputs in trials.inputs] == [X.tolist(), OTHER.tolist()]
    assert [values(call) for call in trials.repeated] == [one, other, one, other]
    assert [values(call) for call in trials.reversed] == [other, one]
    assert [values(call) for call in (trials.refilled, trials.muted, trials.failing)] == [one] * 3
    assert [values(call) for call in trials.fresh] == [one, other]
    assert (trials.error, trials.reference, trials.reference_error, trials.replaced) == ("", None, "", {})
    assert len(trials_of(twice, calls=1).repeated) == 3
    assert len(trials_of(twice, calls=5).repeated) == 5


def test_each_session_begins_with_a_fresh_state() -> None:
    def build() -> Callable[[], torch.Tensor]:
        x, calls = X.clone(), list[int]()

        def run() -> torch.Tensor:
            calls.append(1)
            return x * 0 + len(calls)

        return run

    trials = trials_of(build)
    assert [values(call)[0] for call in trials.repeated] == [1, 2, 3, 4]
    assert [values(call)[0] for call in trials.reversed] == [1, 2]
    assert [values(call)[0] for call in (trials.refilled, trials.muted, trials.failing)] == [1, 1, 1]


def test_unwritten_memory_holds_another_byte_when_refilled() -> None:
    def build() -> Callable[[], torch.Tensor]:
        x = X.clone()
        return lambda: torch.empty_like(x)

    trials = trials_of(build)
    assert bool(trials.repeated[0].outputs[0].isnan().all())
    assert trials.refilled is not None
    assert trials.refilled.outputs[0].tolist() == pytest.approx([0.01149] * 4, abs=1e-5)
    for call in (trials.muted, trials.failing):
        assert call is not None
        assert bool(call.outputs[0].isnan().all())


def test_what_a_trial_raises_is_its_error() -> None:
    def build() -> Callable[[], torch.Tensor]:
        x, calls = X.clone(), list[int]()

        def run() -> torch.Tensor:
            calls.append(1)
            if len(calls) > 2:
                raise ValueError("no more")
            return x * 2

        return run

    trials = trials_of(build, twice)
    assert "ValueError" in trials.error
    assert "no more" in trials.error
    assert (len(trials.repeated), trials.reversed, trials.refilled, trials.reference) == (2, (), None, None)


def test_events_of_every_call_are_kept() -> None:
    def build() -> Callable[[], torch.Tensor]:
        x = X.clone()

        def run() -> torch.Tensor:
            with torch.cuda.stream(torch.cuda.Stream()):
                return x * 2

        return run

    trials = trials_of(build)
    assert sum(bool(events.pending) for events in trials.events) >= 4 + 2 + 1 + 1 + 1


def test_replaced_functions_of_any_session_are_kept() -> None:
    def build() -> Callable[[], torch.Tensor]:
        x = X.clone()
        torch.allclose = len  # type: ignore[assignment]
        return lambda: x * 2

    before = torch.allclose
    assert trials_of(build).replaced == {"torch.allclose": "builtin_function_or_method"}
    assert torch.allclose is before


def test_a_stated_reference_sees_the_same_contents() -> None:
    def build() -> Work:
        x = X.clone()
        return Work(run=lambda: x * 2, inputs=(x,), reference=lambda: (x.double() * 2, x.double()), tolerance=0.25)

    found = trials_of(build).reference
    assert found is not None
    assert [[one.tolist() for one in outputs] for outputs in found.outputs] == [
        [(X.double() * 2).tolist(), X.tolist()],
        [(OTHER.double() * 2).tolist(), OTHER.tolist()],
    ]
    assert found.plain[0].tolist() == (X * 2).tolist()
    assert (found.tolerance, found.ignores_unread) == (0.25, True)  # everything is read, so nothing differs


def test_a_stated_reference_may_be_one_tensor() -> None:
    def build() -> Work:
        x = X.clone()
        return Work(run=lambda: x * 2, inputs=(x,), reference=lambda: x.double() * 2)

    found = trials_of(build).reference
    assert found is not None
    assert [one.tolist() for one in found.outputs[0]] == [(X * 2).tolist()]


def test_a_reference_function_sees_the_same_contents() -> None:
    found = trials_of(twice, twice).reference
    assert found is not None
    assert [outputs[0].tolist() for outputs in found.outputs] == [(X * 2).tolist(), (OTHER * 2).tolist()]
    assert found.plain[0].tolist() == (X * 2).tolist()
    assert (found.tolerance, found.ignores_unread) == (None, True)


def first_half(**_: Any) -> Callable[[], torch.Tensor]:
    x = X.clone()
    return lambda: x[:2] * 2


def test_what_is_not_read_is_changed_for_the_reference() -> None:
    half = trials_of(first_half, first_half)
    assert [one.unread[0].tolist() for one in half.repeated] == [[False, False, True, True]] * 4
    assert half.reference is not None
    assert half.reference.ignores_unread
    whole = trials_of(first_half, twice).reference
    assert whole is not None
    assert not whole.ignores_unread


def test_a_reference_that_writes_returns_what_it_changed() -> None:
    def writes(**_: Any) -> Callable[[], None]:
        x = X.clone()

        def run() -> None:
            x.mul_(2)

        return run

    found = trials_of(twice, writes).reference
    assert found is not None
    assert found.outputs[1][0].tolist() == (OTHER * 2).tolist()


def test_a_reference_with_other_inputs_or_that_raises() -> None:
    def longer(**_: Any) -> Callable[[], torch.Tensor]:
        x = torch.ones(5)
        return lambda: x * 2

    trials = trials_of(twice, longer)
    assert trials.reference is None
    assert "the reference cannot run: its inputs have shapes [(5,)], those of the target [(4,)]" in trials.reference_error

    def raises(**_: Any) -> Callable[[], torch.Tensor]:
        x = X.clone()
        return lambda: x[9]

    trials = trials_of(twice, raises)
    assert trials.reference_error.startswith("the reference cannot run: ")
    assert "IndexError" in trials.reference_error


def typed(device: str, x: str, n: int) -> Callable[[], torch.Tensor]:
    made = torch.arange(1.0, 5.0, dtype=getattr(torch, x.partition("[")[0]))
    return lambda: made / 3


def test_a_reference_runs_in_float64_where_it_can() -> None:
    params = {"x": "float32[n]", "n": 4}
    load = lambda build: lambda: Fixed("t", (), build)  # noqa: E731
    found = run_trials(load(typed), params, reference=load(typed)).reference
    assert found is not None
    assert {one.dtype for outputs in found.outputs for one in outputs} == {torch.float64}
    assert found.plain[0].dtype is torch.float32

    def only_float32(device: str, x: str, n: int) -> Callable[[], torch.Tensor]:
        if "64" in x:
            raise ValueError("float32 only")
        return typed(device, x, n)

    narrow = run_trials(load(only_float32), params, reference=load(only_float32)).reference
    assert narrow is not None
    assert narrow.outputs[0][0].dtype is torch.float32


class Fixed(Target):
    """A target that takes its parameters as they are."""

    def resolve(self, given: Any, *, typed: bool = False) -> Any:
        return dict(given)
