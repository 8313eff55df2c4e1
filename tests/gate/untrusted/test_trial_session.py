"""Sessions of trial calls on functions of plain torch."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from ioaware.case import Work
from ioaware.errors import UsageError
from ioaware.gate.untrusted.trial_session import (
    OVERWRITTEN_BYTE,
    FilledAllocations,
    LaunchFailedError,
    Session,
    trial_session,
)
from ioaware.targets.target import Target


def target_of(build: Callable[[], object]) -> Callable[[], Target]:
    return lambda: Target("t", (), lambda device: build())


def in_session(build: Callable[[], object], use: Callable[[Session], Any], **options: Any) -> Any:
    with trial_session(target_of(build), {}, byte=options.pop("byte", 0xFF), **options) as session:
        return use(session)


def error_of(build: Callable[[], object], **options: Any) -> tuple[str, str]:
    with pytest.raises(UsageError) as raised:
        in_session(build, lambda session: session.call(), **options)
    return raised.value.what, raised.value.remedy


def doubles() -> Callable[[], torch.Tensor]:
    x = torch.arange(4.0)
    return lambda: x * 2


def test_a_call_returns_copies_and_says_what_was_read() -> None:
    def use(session: Session) -> None:
        assert session.names == ("x",)
        first, second = session.call(), session.call()
        assert first.outputs[0].tolist() == [0.0, 2.0, 4.0, 6.0]
        assert (first.kernels, first.operators, first.changed, first.aliased) == ((), ("aten.mul.Tensor",), (), ())
        assert not bool(first.unread[0].any())
        assert (first.same_memory, second.same_memory) == (False, False)
        assert len(second.launches) == 1

    in_session(doubles, use)


def test_inputs_by_name_number_or_enclosure() -> None:
    x, y, z = torch.ones(2), torch.ones(3), torch.ones(4)
    names = lambda session: session.names  # noqa: E731
    assert in_session(lambda: Work(run=lambda: x + 1, arguments={"a": x}, inputs=(y,)), names) == ("a",)
    assert in_session(lambda: Work(run=lambda: x + 1, inputs=(x, y)), names) == ("input 0", "input 1")
    called = partial(lambda a, b, c: (a, b, c), x, [y, z], c=z)
    assert in_session(lambda: called, names) == ("argument 0", "argument 1[0]", "argument 1[1]", "c")

    def with_defaults(a: torch.Tensor = x, b: int = 3) -> torch.Tensor:
        return a + y * b

    assert in_session(lambda: with_defaults, names) == ("y", "a")


def test_inputs_that_are_not_known() -> None:
    what, remedy = error_of(lambda: torch.ones(3))
    assert what == "the inputs of t are not known: it builds them and computes in one call"
    assert remedy == 'Give them as tensors, -p "x=f32[n=1000]", or let it return the callable that computes.'
    what, remedy = error_of(lambda: lambda: 3)
    assert what == "the inputs of t are not known: the callable that it returns holds no tensor"
    assert remedy == 'Give them as tensors, -p "x=f32[n=1000]", or return a closure over them.'
    what, remedy = error_of(doubles, writable=frozenset({"z", "x", "y"}))
    assert (what, remedy) == ("t has no input y, z", "Its inputs: x.")


def test_changed_aliased_and_written_inputs() -> None:
    def build() -> Callable[[], Any]:
        x, y = torch.ones(4), torch.ones(4)

        def run() -> torch.Tensor:
            y.add_(1)
            return x[1:]

        return run

    call = in_session(build, lambda session: session.call())
    assert (call.changed, call.aliased) == (("y",), ("x",))
    assert [one.tolist() for one in call.outputs] == [[1.0] * 3]
    call = in_session(build, lambda session: session.call(), writable=frozenset({"y", "x"}))
    assert [one.tolist() for one in call.outputs] == [[1.0] * 3, [2.0] * 4]  # what is written is an output, once


def test_an_output_in_the_memory_of_an_earlier_one() -> None:
    def build() -> Callable[[], Any]:
        x, kept = torch.ones(4), torch.zeros(4)
        return lambda held=x: [kept.copy_(held)]

    assert in_session(build, lambda session: [session.call().same_memory for _ in range(2)]) == [False, False]

    def hidden() -> Callable[[], Any]:
        x = torch.ones(4)
        kept: dict[str, torch.Tensor] = {}
        return lambda: kept.setdefault("out", x * 2)

    calls = in_session(hidden, lambda session: [session.call() for _ in range(2)])
    assert [one.same_memory for one in calls] == [False, True]
    assert [one.kept for one in calls] == [frozenset(), frozenset({0})]


def test_the_outputs_that_are_kept_have_numbers() -> None:
    def build() -> Callable[[], Any]:
        x, kept = torch.ones(4), {"a": torch.zeros(2), "b": torch.zeros(3)}  # whose tensors are no inputs

        def run() -> list[torch.Tensor]:
            return [kept["a"], x * 2, kept["b"], x]

        return run

    call = in_session(build, lambda session: session.call())
    assert call.kept == frozenset({0, 2})


class Lazy(torch.Tensor):
    """A tensor whose methods may compute."""


def test_outputs_of_subclasses_are_named() -> None:
    def build() -> Callable[[], Any]:
        x = torch.ones(4)
        return lambda: [x + 1, (x + 2).as_subclass(Lazy), torch.nn.Parameter(x + 3)]

    call = in_session(build, lambda session: session.call())
    assert call.subclasses == ("Lazy",)
    assert [(type(one), one.tolist()) for one in call.outputs] == [(torch.Tensor, [at] * 4) for at in (2.0, 3.0, 4.0)]
    assert in_session(doubles, lambda session: session.call()).subclasses == ()


def test_a_caller_overwrites_outputs_and_no_inputs() -> None:
    returned: list[torch.Tensor] = []

    def build() -> Callable[[], Any]:
        x = torch.ones(2)

        def run() -> list[torch.Tensor]:
            returned[:] = [x + 1, x + 2, x]
            return returned

        return run

    def use(session: Session) -> list[bytes]:
        session.call()
        session.overwrite({1, 2})
        return [bytes(one.view(torch.uint8).tolist()) for one in returned]

    overwritten = bytes([OVERWRITTEN_BYTE] * 8)
    plain = bytes(torch.full((2,), 2.0).view(torch.uint8).tolist()), bytes(torch.ones(2).view(torch.uint8).tolist())
    assert in_session(build, use) == [plain[0], overwritten, plain[1]]


@pytest.mark.parametrize(("byte", "value"), [(0xFF, float("nan")), (0x3C, 0.01149)])
def test_memory_that_is_not_written_holds_the_sessions_byte(byte: int, value: float) -> None:
    def build() -> Callable[[], Any]:
        x = torch.ones(3)
        return lambda: (torch.empty_like(x), torch.empty(2, 2), torch.zeros_like(x))

    one, other, zero = in_session(build, lambda session: session.call(), byte=byte).outputs
    assert torch.allclose(one, torch.full((3,), value), atol=1e-5, equal_nan=True)
    assert torch.allclose(other, torch.full((2, 2), value), atol=1e-5, equal_nan=True)
    assert zero.tolist() == [0.0] * 3


def test_allocations_are_filled_where_they_are_views_too() -> None:
    with FilledAllocations(7):
        strided = torch.empty_strided((2, 2), (1, 4), dtype=torch.uint8)
        given = torch.full((2,), 3, dtype=torch.uint8)
    assert strided.tolist() == [[7, 7], [7, 7]]
    assert given.tolist() == [3, 3]


def test_random_numbers_are_the_same_in_each_call_and_untouched_outside() -> None:
    def build() -> Callable[[], Any]:
        x = torch.ones(2)
        return lambda: x + torch.rand(2) + random.random() + np.random.random()

    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    expected = (float(torch.rand(1)), random.random(), float(np.random.random()))
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    first, second = in_session(build, lambda session: [session.call().outputs[0] for _ in range(2)])
    again = in_session(build, lambda session: session.call().outputs[0])
    assert first.tolist() == second.tolist() == again.tolist()
    assert (float(torch.rand(1)), random.random(), float(np.random.random())) == expected


def test_what_the_function_raises_is_a_usage_error() -> None:
    def build() -> Callable[[], Any]:
        x = torch.ones(2)

        def run() -> torch.Tensor:
            torch.cuda.set_stream(torch.cuda.Stream())
            x.add_(1)
            raise ValueError("no")

        return run

    def use(session: Session) -> None:
        with pytest.raises(ValueError, match="no"):
            session.call()
        assert session.order.events.pending == set()
        raise ValueError("at last")

    with pytest.raises(UsageError, match="ValueError"):
        in_session(build, use)


def test_a_thread_is_waited_for() -> None:
    def build() -> Callable[[], Any]:
        x = torch.ones(2)
        out = torch.zeros(2)

        def run(kept: torch.Tensor = out) -> torch.Tensor:
            event = threading.Event()
            thread = threading.Thread(target=lambda: (event.wait(0.05), kept.copy_(x)))
            thread.start()
            return kept

        return run

    call = in_session(build, lambda session: session.call())
    assert call.outputs[0].tolist() == [1.0, 1.0]
    assert len(call.events.threads) == 1


def test_the_error_of_a_failing_launch_is_of_every_class_that_a_launch_raises() -> None:
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources

    error = LaunchFailedError()
    assert isinstance(error, (OutOfResources, CompilationError, RuntimeError))
    assert all(isinstance(error, kind) for kind in (OutOfResources, CompilationError, RuntimeError))
    assert str(error) == "this launch fails, as part of a trial" == error.args[0]
