"""Run the trials of an untrusted kernel: calls that differ in one thing each.

So a difference in the output has one cause.

- Repeated: other contents in the same memory, and the first contents again. A result that is kept from an earlier call shows.
- Reversed: a fresh state sees the contents in the other order, so that what a first call computes is known for both.
- Refilled: a fresh state whose unwritten memory holds another byte. An output that is not written shows.
- Muted: kernels run and write nothing. An output that stays the same is none of theirs.
- Failing: launches fail. An output that comes all the same is no kernel's.
- Recalled: the caller overwrites each output. On untouched inputs the kernels must make it again; where they write
  nothing it must not come back. Not for a target that is meant to change its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import torch

from ioaware.errors import IoawareError, UsageError
from ioaware.gate.untrusted.host_events import HostEvents
from ioaware.gate.untrusted.input_contents import agree_all, copies, other_contents, same_bits, write
from ioaware.gate.untrusted.trial_session import Call, LoadTarget, Session, trial_session
from ioaware.result import ParamValue
from ioaware.targets.tensor_params import parse_tensor

NAN_BYTE, OTHER_BYTE = 0xFF, 0x3C
"""Contents of unwritten memory: NaN, or small normal numbers.

The small numbers are 1.06 in float16 and 0.0115 in float32.
"""
FEWEST_CALLS = 3
Outputs = tuple[torch.Tensor, ...]


@dataclass
class Trials:
    """Records of all calls.

    Contents of the inputs: 0 as the target makes them, 1 others.
    """

    names: tuple[str, ...] = ()
    inputs: tuple[tuple[torch.Tensor, ...], ...] = ()
    """The inputs with contents 0 and with contents 1."""
    writable: frozenset[str] = frozenset()
    repeated: tuple[Call, ...] = ()
    """Calls 0, 1, 2, ... of one session, with contents 0, 1, 0, ..."""
    reversed: tuple[Call, ...] = ()
    """Two calls of another session, with contents 1 and 0."""
    refilled: Call | None = None
    muted: Call | None = None
    failing: Call | None = None
    """A call whose launches fail; None where it raised, as it should."""
    recalled: tuple[Call, ...] = ()
    """Calls with contents 0 whose kernels write nothing.

    Outputs of earlier calls were overwritten.
    """
    untouched: Call | None = None
    """A second call with contents 0, which nothing wrote anew.

    The first output was overwritten.
    """
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    """Public functions and operators that the target replaced, each with how."""
    events: list[HostEvents] = field(default_factory=list[HostEvents])
    error: str = ""
    """Why a trial could not run; empty where all did."""
    reference: Reference | None = None
    reference_error: str = ""
    """Why the reference could not run."""

    @property
    def fresh(self) -> tuple[Call, Call]:
        """Return the first call of a session with contents 0, and that with contents 1."""
        return self.repeated[0], self.reversed[0]


@dataclass(frozen=True)
class Reference:
    """What the reference returns, in float64 where its inputs can be."""

    outputs: tuple[Outputs, Outputs]
    """For contents 0 and 1."""
    plain: Outputs
    """For contents 0, in the types that were given."""
    ignores_unread: bool
    """Whether its outputs stay the same with other values in unread inputs.

    The other values are where the target's last repeated call read nothing.
    """
    tolerance: float | None
    """The relative error allowed, where the target states it."""


def run_trials(
    load: LoadTarget,
    params: Mapping[str, ParamValue],
    *,
    reference: LoadTarget | None = None,
    writable: frozenset[str] = frozenset(),
    autotune: Mapping[str, ParamValue] | None = None,
    calls: int = 4,
) -> Trials:
    """Run every trial of a target at `params`.

    What a trial raises is its `error`, and ends the trials.
    """
    trials = Trials(writable=writable)
    runner = _Runner(trials, load, params, autotune)
    try:
        runner.repeat(max(calls, FEWEST_CALLS))
        runner.reverse()
        runner.refill()
        runner.mute()
        runner.fail()
        runner.recall()
    except IoawareError as error:
        trials.error = str(error)
    if trials.repeated and not trials.error:
        try:
            trials.reference = _called_reference(trials, reference, params) if reference else _stated(trials, load, params)
        except IoawareError as error:
            trials.reference_error = f"the reference cannot run: {error}"
    return trials


def made_by_kernels(trials: Trials) -> frozenset[int]:
    """Return which outputs the kernels make, and from the inputs.

    With muted kernels they differ, and with other contents.
    """
    if trials.muted is None:
        return frozenset()
    first, other = trials.fresh
    calls = zip(first.outputs, other.outputs, trials.muted.outputs, strict=False)
    return frozenset(
        number
        for number, (one, changed, muted) in enumerate(calls)
        if not same_bits(one, changed) and not same_bits(one, muted)
    )


class _Runner:
    """Runs the trials of one target, each in a session of its own."""

    def __init__(
        self, trials: Trials, load: LoadTarget, params: Mapping[str, ParamValue], autotune: Mapping[str, ParamValue] | None
    ) -> None:
        self.trials = trials
        self._load = load
        self._params = params
        self._autotune = autotune

    def repeat(self, calls: int) -> None:
        """Call several times in one session, contents 0 and 1 in turn."""

        def use(session: Session) -> None:
            first = copies(session.inputs)
            self.trials.names = session.names
            self.trials.inputs = (tuple(first), tuple(other_contents(first)))
            for number in range(calls):
                write(session.inputs, self.trials.inputs[number % 2])
                self.trials.repeated = (*self.trials.repeated, self._kept(session.call()))

        self._session(NAN_BYTE, use)

    def reverse(self) -> None:
        """Call a fresh session with contents 1, then with 0."""

        def use(session: Session) -> None:
            for number in (1, 0):
                write(session.inputs, self.trials.inputs[number])
                self.trials.reversed = (*self.trials.reversed, self._kept(session.call()))

        self._session(NAN_BYTE, use)

    def refill(self) -> None:
        """Call a fresh session whose unwritten memory holds another byte."""

        def use(session: Session) -> None:
            write(session.inputs, self.trials.inputs[0])
            self.trials.refilled = self._kept(session.call())

        self._session(OTHER_BYTE, use)

    def mute(self) -> None:
        """Call a fresh session whose kernels write nothing.

        One that raises then needs its kernels.
        """

        def use(session: Session) -> None:
            write(session.inputs, self.trials.inputs[0])
            with suppress(Exception):
                self.trials.muted = self._kept(session.call("mute"))

        self._session(NAN_BYTE, use)

    def fail(self) -> None:
        """Call a fresh session whose launches fail."""

        def use(session: Session) -> None:
            write(session.inputs, self.trials.inputs[0])
            with suppress(Exception):
                self.trials.failing = self._kept(session.call("fail"))

        self._session(NAN_BYTE, use)

    def recall(self) -> None:
        """Call where each output of the kernels is overwritten before the next call."""
        made = made_by_kernels(self.trials)

        def use(session: Session) -> None:
            def muted() -> None:
                session.overwrite(made)
                with suppress(Exception):
                    self.trials.recalled = (*self.trials.recalled, self._kept(session.call("mute")))
                session.overwrite(made)

            write(session.inputs, self.trials.inputs[0])
            session.call()
            session.overwrite(made)
            self.trials.untouched = self._kept(session.call())
            muted()
            write(session.inputs, self.trials.inputs[1])
            session.call()
            write(session.inputs, self.trials.inputs[0])
            muted()

        if made and not self.trials.writable:
            self._session(NAN_BYTE, use)

    def _session(self, byte: int, use: Callable[[Session], None]) -> None:
        with trial_session(
            self._load, self._params, byte=byte, writable=self.trials.writable, autotune=self._autotune
        ) as session:
            try:
                use(session)
            finally:
                self.trials.replaced |= session.guard.changed() | session.operators.changed()
                self.trials.events += [session.loading, session.order.events]

    def _kept(self, call: Call) -> Call:
        self.trials.events.append(call.events)
        return call


def _stated(trials: Trials, load: LoadTarget, params: Mapping[str, ParamValue]) -> Reference | None:
    """Return the outputs of the reference that the target's work states.

    The work states it as a case does.
    """
    with trial_session(load, params, byte=NAN_BYTE) as session:
        reference = session.work.reference
        if reference is None:
            return None
        outputs: list[Outputs] = []
        for contents in (*trials.inputs, _changed_where_unread(trials)):
            write(session.inputs, contents)
            found = reference()
            outputs.append(tuple(copies([found] if isinstance(found, torch.Tensor) else list(found))))
        return _compared(trials, outputs, trials.repeated[0].outputs, session.work.tolerance)


def _called_reference(trials: Trials, load: LoadTarget, params: Mapping[str, ParamValue]) -> Reference:
    """Return the outputs of a reference function."""
    contents = (*trials.inputs, _changed_where_unread(trials))
    (plain,) = _called(trials, load, params, [trials.inputs[0]])
    try:
        exact = _called(trials, load, _in_float64(params), contents)
    except IoawareError:  # it takes the given types only
        exact = _called(trials, load, params, contents)
    return _compared(trials, exact, plain, None)


def _compared(trials: Trials, outputs: Sequence[Outputs], plain: Outputs, tolerance: float | None) -> Reference:
    """Return the outputs for contents 0 and 1 as a reference, and compare the third.

    The third is compared with the outputs of the last call.
    """
    same = agree_all(outputs[(len(trials.repeated) - 1) % 2], outputs[2])
    return Reference((outputs[0], outputs[1]), plain, same, tolerance)


def _called(
    trials: Trials, load: LoadTarget, params: Mapping[str, ParamValue], contents: Sequence[Sequence[torch.Tensor]]
) -> list[Outputs]:
    """Return the outputs of a reference function for each contents in turn."""
    found: list[Outputs] = []
    with trial_session(load, params, byte=NAN_BYTE) as session:
        shapes = [tuple(tensor.shape) for tensor in session.inputs]
        if shapes != [tuple(tensor.shape) for tensor in trials.inputs[0]]:
            raise UsageError(
                f"its inputs have shapes {shapes}, those of the target {[tuple(one.shape) for one in trials.inputs[0]]}",
                "Give the reference the same inputs in the same order.",
            )
        for one in contents:
            write(session.inputs, one)
            call = session.call()
            changed = [tensor for tensor, name in zip(session.inputs, session.names, strict=True) if name in call.changed]
            found.append(call.outputs or tuple(copies(changed)))
    return found


def _in_float64(params: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    """Return parameters whose floating-point tensors are of float64."""
    wide = dict(params)
    for name, value in params.items():
        if (parsed := parse_tensor(value)) is not None and getattr(torch, parsed[0].dtype).is_floating_point:
            wide[name] = str(value).replace(str(value).partition("[")[0], "float64", 1)
    return wide


def _changed_where_unread(trials: Trials) -> tuple[torch.Tensor, ...]:
    """Return the last call's inputs, with other values where nothing was read.

    The target read nothing there.
    """
    number = (len(trials.repeated) - 1) % 2
    return tuple(
        torch.where(unread, other, same)
        for unread, same, other in zip(
            trials.repeated[-1].unread, trials.inputs[number], trials.inputs[1 - number], strict=True
        )
    )
