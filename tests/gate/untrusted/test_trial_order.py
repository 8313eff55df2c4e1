"""Which calls the trials make, and with what, in sessions that are made up."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ioaware.errors import UsageError
from ioaware.gate.untrusted import trials as module
from ioaware.gate.untrusted.host_events import HostEvents
from ioaware.gate.untrusted.input_contents import copies, other_contents, same_bits
from ioaware.gate.untrusted.trial_session import Call
from ioaware.gate.untrusted.trials import Trials, made_by_kernels, run_trials
from ioaware.result import Launch

X = torch.arange(1.0, 5.0)
(OTHER,) = other_contents([X])
ONE, TWO = (X * 2).tolist(), (OTHER * 2).tolist()
Run = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]


def doubles(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [inputs[0] * 2]


def raises(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    raise UsageError("it cannot run", "Leave it.")


class Target:
    """A target that doubles its input, in one kernel."""

    def __init__(self, run: Run = doubles, shape: int = 4, **more: Any) -> None:
        given = {"unread": None, "changed": (), "stated": None, "tolerance": None, "in_modes": {}, "replaced": {}, "types": ()}
        self.run, self.shape = run, shape
        self.options = SimpleNamespace(**(given | more))


class Session:
    """The part of a session that trials use; `log` says what was called."""

    def __init__(self, target: Target, params: Mapping[str, Any], log: list[Any]) -> None:
        dtype = torch.float64 if "float64" in str(params.get("x")) else torch.float32
        if dtype is torch.float64 and target.options.types:
            raise UsageError("float32 only", "Give float32.")
        self.inputs = (torch.arange(1.0, 1.0 + target.shape, dtype=dtype),)
        self.names = ("x",)
        self.target, self.log = target, log
        self.loading = HostEvents()
        self.order = SimpleNamespace(events=HostEvents())
        self.guard = SimpleNamespace(changed=lambda: {f"guard {len(log)}": "how"} if target.options.replaced else {})
        self.operators = SimpleNamespace(changed=lambda: dict(target.options.replaced))
        stated = target.options.stated
        reference = (lambda: stated(self.inputs)) if stated else None
        self.work = SimpleNamespace(reference=reference, tolerance=target.options.tolerance)

    def call(self, mode: str = "run") -> Call:
        contents = 0 if same_bits(self.inputs[0].float(), X[: self.target.shape]) else 1
        self.log.append(f"{mode} {contents}")
        run = self.target.options.in_modes.get(mode, self.target.run)
        outputs = tuple(copies(run(self.inputs)))
        unread = self.target.options.unread
        mask = torch.zeros(self.inputs[0].shape, dtype=torch.bool) if unread is None else unread
        changed = self.target.options.changed
        return Call(outputs, (Launch("k"),), changed, (), (mask,), HostEvents(), same_memory=False)

    def overwrite(self, numbers: Any) -> None:
        self.log.append(f"overwrite {sorted(numbers)}")


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return each session's options and calls, in order."""
    made: list[Any] = []

    @contextmanager
    def trial_session(load: Callable[[], Target], params: Any, **options: Any) -> Generator[Session]:
        log: list[str] = []
        session = Session(load(), params, log)
        made.append((options, params, log, session))
        yield session

    monkeypatch.setattr(module, "trial_session", trial_session)
    return made


def trials_of(target: Target, reference: Target | None = None, **options: Any) -> Trials:
    params = options.pop("params", {"x": "float32[n]", "n": 4})
    load: Any = lambda: target  # noqa: E731
    load_reference: Any = (lambda: reference) if reference else None
    return run_trials(load, params, reference=load_reference, **options)


def values(call: Call | None) -> list[float]:
    assert call is not None
    return call.outputs[0].tolist()


MUTED = {"mute": lambda inputs: [inputs[0] * 0]}


def test_the_calls_of_each_session(sessions: list[Any]) -> None:
    trials = trials_of(Target(in_modes=MUTED), autotune={"BLOCK": 8})
    assert [log for _, _, log, _ in sessions] == [
        ["run 0", "run 1", "run 0", "run 1"],
        ["run 1", "run 0"],
        ["run 0"],
        ["mute 0"],
        ["fail 0"],
        [
            "run 0", "overwrite [0]", "run 0", "overwrite [0]", "mute 0", "overwrite [0]",
            "run 1", "overwrite [0]", "mute 0", "overwrite [0]",
        ],
        [],
    ]  # fmt: skip
    bytes_of = [options["byte"] for options, *_ in sessions]
    assert bytes_of == [0xFF, 0xFF, 0x3C, 0xFF, 0xFF, 0xFF, 0xFF]
    assert all(options["autotune"] == {"BLOCK": 8} and options["writable"] == set() for options, *_ in sessions[:-1])
    assert all(params == {"x": "float32[n]", "n": 4} for _, params, *_ in sessions)
    assert trials.names == ("x",)
    assert [one[0].tolist() for one in trials.inputs] == [X.tolist(), OTHER.tolist()]
    assert [values(call) for call in trials.repeated] == [ONE, TWO, ONE, TWO]
    assert [values(call) for call in trials.reversed] == [TWO, ONE]
    assert [values(call) for call in trials.fresh] == [ONE, TWO]
    assert [values(call) for call in (trials.refilled, trials.failing, trials.untouched)] == [ONE] * 3
    assert [values(call) for call in (trials.muted, *trials.recalled)] == [[0.0] * 4] * 3
    assert (trials.error, trials.reference, trials.reference_error, trials.replaced) == ("", None, "", {})


def test_the_number_of_calls(sessions: list[Any]) -> None:
    assert [len(trials_of(Target(), calls=calls).repeated) for calls in (1, 3, 5)] == [3, 3, 5]


def test_outputs_are_recalled_where_kernels_make_them_from_inputs_alone(sessions: list[Any]) -> None:
    assert trials_of(Target()).recalled == ()  # the same without kernels
    constant = lambda inputs: [inputs[0] * 0 + 1]  # noqa: E731
    assert trials_of(Target(constant, in_modes=MUTED)).recalled == ()  # the same for other inputs
    found = trials_of(Target(in_modes=MUTED), writable=frozenset({"x"}))
    assert (found.recalled, found.untouched, made_by_kernels(found)) == ((), None, {0})
    assert all(options["writable"] == {"x"} for options, *_ in sessions[-6:-1])
    silent = trials_of(Target(in_modes={"mute": raises, "fail": raises}))
    assert (silent.muted, silent.failing, silent.recalled, silent.error) == (None, None, (), "")
    assert made_by_kernels(silent) == frozenset()
    part = lambda inputs: [inputs[0] * 2, inputs[0] * 0]  # noqa: E731
    muted = {"mute": lambda inputs: [inputs[0] * 0, inputs[0] * 0]}
    assert made_by_kernels(trials_of(Target(part, in_modes=muted))) == {0}


def test_events_of_each_session_and_call_are_kept(sessions: list[Any]) -> None:
    trials = trials_of(Target(in_modes=MUTED))
    kept = [id(events) for events in trials.events]
    of_sessions = [id(events) for *_, one in sessions[:-1] for events in (one.loading, one.order.events)]
    calls = [*trials.repeated, *trials.reversed, trials.refilled, trials.muted, trials.failing, trials.untouched]
    of_calls = [id(call.events) for call in (*calls, *trials.recalled) if call]
    assert len(of_calls) == 4 + 2 + 1 + 1 + 1 + 1 + 2
    assert sorted(kept) == sorted(of_sessions + of_calls)


def test_functions_replaced_in_any_session_are_kept(sessions: list[Any]) -> None:
    found = trials_of(Target(replaced={"torch.allclose": "len"})).replaced
    assert found == {"torch.allclose": "len", "guard 4": "how", "guard 2": "how", "guard 1": "how"}


def test_an_error_ends_the_trials(sessions: list[Any]) -> None:
    trials = trials_of(Target(raises, replaced={"torch.allclose": "len"}), Target())
    assert trials.error.startswith("it cannot run")
    assert (trials.repeated, trials.reversed, trials.reference, len(sessions)) == ((), (), None, 1)
    assert trials.replaced == {"torch.allclose": "len", "guard 1": "how"}


def test_a_stated_reference_sees_both_contents(sessions: list[Any]) -> None:
    stated = lambda inputs: (inputs[0].double() * 2, inputs[0].double())  # noqa: E731
    found = trials_of(Target(stated=stated, tolerance=0.25)).reference
    assert found is not None
    assert [[one.tolist() for one in outputs] for outputs in found.outputs] == [[ONE, X.tolist()], [TWO, OTHER.tolist()]]
    assert (found.plain[0].tolist(), found.tolerance, found.ignores_unread) == (ONE, 0.25, True)
    options, params, *_ = sessions[-1]
    assert (options, params) == ({"byte": 0xFF}, {"x": "float32[n]", "n": 4})
    one = trials_of(Target(stated=lambda inputs: inputs[0] * 2)).reference
    assert one is not None
    assert [[output.tolist() for output in outputs] for outputs in one.outputs] == [[ONE], [TWO]]


def test_a_reference_function_runs_in_float64_and_as_given(sessions: list[Any]) -> None:
    found = trials_of(Target(), Target(lambda inputs: [inputs[0] / 3])).reference
    assert found is not None
    assert [outputs[0].dtype for outputs in found.outputs] == [torch.float64] * 2
    assert [outputs[0].tolist() for outputs in found.outputs] == [(one.double() / 3).tolist() for one in (X, OTHER)]
    assert (found.plain[0].dtype, found.plain[0].tolist()) == (torch.float32, (X / 3).tolist())
    assert (found.tolerance, found.ignores_unread) == (None, True)
    assert [(options, params["x"], log) for options, params, log, _ in sessions[-2:]] == [
        ({"byte": 0xFF}, "float32[n]", ["run 0"]),
        ({"byte": 0xFF}, "float64[n]", ["run 0", "run 1", "run 1"]),
    ]
    narrow = trials_of(Target(), Target(types=("float32",))).reference
    assert narrow is not None
    assert (narrow.outputs[0][0].dtype, narrow.outputs[1][0].tolist()) == (torch.float32, TWO)


def test_integers_and_texts_of_a_reference_stay_as_they_are(sessions: list[Any]) -> None:
    trials_of(Target(), Target(), params={"x": "f16[n]", "i": "int32[n]", "mode": "float32", "n": 4})
    assert sessions[-1][1] == {"x": "float64[n]", "i": "int32[n]", "mode": "float32", "n": 4}


@pytest.mark.parametrize("calls", [4, 5])
def test_what_is_not_read_is_changed_for_the_reference(sessions: list[Any], calls: int) -> None:
    half = torch.tensor([False, False, True, True])
    first_half = lambda inputs: [inputs[0][:2] * 2]  # noqa: E731
    seen: list[list[float]] = []

    def reference(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        seen.append(inputs[0].tolist())
        return [inputs[0][:2] * 2]

    ignores = trials_of(Target(first_half, unread=half), Target(reference), calls=calls).reference
    assert ignores is not None
    assert ignores.ignores_unread
    last, other = (OTHER, X) if calls == 4 else (X, OTHER)
    assert seen[-1] == [*last[:2].tolist(), *other[2:].tolist()]
    whole = trials_of(Target(first_half, unread=half), Target(), calls=calls).reference
    assert whole is not None
    assert not whole.ignores_unread


def test_a_reference_that_writes_gives_what_it_changed(sessions: list[Any]) -> None:
    def writes(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        inputs[0].mul_(2)
        return []

    found = trials_of(Target(), Target(writes, changed=("x",))).reference
    assert found is not None
    assert [outputs[0].tolist() for outputs in found.outputs] == [ONE, TWO]


def test_references_that_cannot_run(sessions: list[Any]) -> None:
    trials = trials_of(Target(), Target(shape=3))
    what = "the reference cannot run: its inputs have shapes [(3,)], those of the target [(4,)]"
    assert trials.reference is None
    assert [line.strip() for line in trials.reference_error.splitlines()] == [
        what, "Give the reference the same inputs in the same order.",
    ]  # fmt: skip
    trials = trials_of(Target(), Target(raises))
    assert (trials.reference, trials.error) == (None, "")
    assert trials.reference_error.startswith("the reference cannot run: it cannot run")


def test_a_muted_call_that_raises_is_not_recalled(sessions: list[Any]) -> None:
    muted: list[int] = []

    def once(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        muted.append(1)
        if len(muted) > 1:
            raise ValueError("no more")
        return [inputs[0] * 0]

    trials = trials_of(Target(in_modes={"mute": once}))
    assert (trials.recalled, trials.error, values(trials.untouched), len(muted)) == ((), "", ONE, 3)
