"""Runs an unmodified host function on tensors without memory and catches its launches, integer parameters kept symbolic.

Every function is run twice at least: with plain integers, which is what it does, and with symbols, which is what it does in
general. Parameters that the host code needs as integers are pinned to their given value and the run repeated, until what is
left symbolic agrees with the plain run launch by launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from sympy import Expr
from triton.backends.compiler import GPUTarget

from ioaware.capture.data_reads import Reads, Written, recording, replaying
from ioaware.capture.fake_tensors import Memoryless, RandomLike, WithoutGenerators
from ioaware.capture.fingerprint import fingerprint
from ioaware.capture.interceptor import Interceptor
from ioaware.capture.symbolic_minmax import symbolic_extremes
from ioaware.capture.symbolic_params import Free
from ioaware.capture.validity import Validity, validity
from ioaware.case import Work
from ioaware.compilation.launch_traffic import kernel_traffic
from ioaware.compilation.launches import CapturedLaunch, CapturedOperator, Event, agree, anonymous, tensor_of
from ioaware.errors import IoawareError, UsageError
from ioaware.fakegpu.aten_traffic import OperatorRecorder
from ioaware.fakegpu.fake_cuda import cuda_on_cpu
from ioaware.result import ParamValue
from ioaware.symints.symbols import Decision, ReadsDataError, Symbols, quick_quotients
from ioaware.symints.without_dynamo import without_torch_compile
from ioaware.targets.loading import failing_line, first_line
from ioaware.targets.target import Target, work_of

_random: Any = torch.random
DEFAULT_GPU = GPUTarget("cuda", 90, 32)


@dataclass(frozen=True)
class Capture:
    """What a work does: its launches and operators in order, in the parameters that stayed symbolic."""

    events: list[Event]
    values: Mapping[str, int]
    """The symbolic parameters and their given values."""
    notes: tuple[str, ...] = ()
    returned: frozenset[int] = frozenset()
    """The storages of what the work returned."""
    validity: Validity | None = None
    """For which other values the launches are the same."""

    @property
    def launches(self) -> list[CapturedLaunch]:
        """The Triton and Gluon kernels alone."""
        return [event for event in self.events if isinstance(event, CapturedLaunch)]


@dataclass
class _Run:
    """One run of the host function."""

    symbols: Symbols
    events: list[Event] = field(default_factory=list[Event])
    notes: tuple[str, ...] = ()
    returned: frozenset[int] = frozenset()
    error: Exception | None = None

    @property
    def pinned(self) -> dict[str, str]:
        """Parameters that this run needed as integers, with the reason."""
        found: dict[str, str] = {}
        for decision in self.symbols.decisions.values():
            if decision.pins:
                for name in sorted(decision.names):
                    found.setdefault(name, decision.reason)
        # One that is 1 was followed as another number, with which the function may have gone another way than it does: first
        # without that.
        elsewhere = {name: why for name, why in found.items() if self.symbols.elsewhere(name)}
        return elsewhere or found

    @property
    def equality(self) -> Decision | None:
        """The first place where two parameters turned out to be the same number."""
        return next((decision for decision in self.symbols.decisions.values() if decision.equals), None)


def capture(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    autotune: Mapping[str, ParamValue] | None = None,
    gpu: GPUTarget = DEFAULT_GPU,
    begun: Callable[[Sequence[CapturedLaunch]], None] | None = None,
) -> Capture:
    """The launches that the work of `target` makes at resolved `params`, on `gpu`, which need not be there.

    `begun` is told of the launches as soon as they are known with plain numbers, long before they are with symbols.
    `autotune` picks the configuration of autotuned kernels by value. Raises `UsageError` when the function raises, reads a
    tensor's data, or launches no Triton kernel.
    """
    runner = _Runner(target, dict(params), dict(autotune or {}), gpu)
    plain = runner.run(Free({}))
    if plain.error is not None and isinstance(_user_error(target, plain.error), ReadsDataError):
        plain = _with_data(target, runner)
    if plain.error is not None:
        raise _user_error(target, plain.error)
    if not any(isinstance(event, CapturedLaunch) for event in plain.events):
        raise UsageError(
            f"{target.name} launched no Triton kernel",
            "A target launches its kernels when called, or returns the callable that does.",
        )
    if begun:
        begun([event for event in plain.events if isinstance(event, CapturedLaunch)])
    host = runner.fingerprint()
    free = _settled_on(host) or Free({name: value for name, value in params.items() if type(value) is int and value >= 1})
    while True:
        run = runner.run(free)
        if run.equality is not None:
            free.merge(run.equality)
            continue
        new = run.pinned
        if not new and run.error is not None:
            new = runner.culprit(free, run.error)
        if not new and not agree(run.events, plain.events, _at(free.values)):
            new = dict.fromkeys(free.suspects, "the launches depend on it in another way than symbols show")
        if not new:
            if host is not None:
                _ended[host] = free.copy()
            return _settled(runner, free, run, plain)
        free.pin(new)


_ended: dict[Hashable, Free] = {}
KEPT_ENDS = 256


def _settled_on(host: Hashable) -> Free | None:
    """What the search came to for the same host code at the same parameters: the search then is one run, which is checked as
    ever. At worst a parameter is specialised that would not need to be."""
    if len(_ended) >= KEPT_ENDS:
        _ended.clear()
    return _ended[host].copy() if host in _ended else None


def _settled(runner: _Runner, free: Free, run: _Run, plain: _Run) -> Capture:
    """What a run of both kinds agrees on, and where that holds."""
    decisions = run.symbols.decisions.values()
    read = tuple(dict.fromkeys(decision.note for decision in decisions if decision.condition is None))
    holds = validity(
        runner.name,
        free.values,
        [decision.condition for decision in decisions if decision.condition],
        run.symbols.unsaid.values(),
        reads_data=bool(read),
        same_at=lambda point: runner.same_at(point, free, run.events),
    )
    assumed = dict.fromkeys(f"assumes {condition} ({condition.reason})" for condition in holds.conditions)
    notes = (*plain.notes, *_pins(free.pinned, runner.params), *free.equalities, *read, *assumed)
    return Capture(run.events, free.values, notes, run.returned, holds)


class _Runner:
    """Runs the host function with some of its parameters symbolic."""

    def __init__(self, target: Target, params: dict[str, Any], autotune: dict[str, Any], gpu: GPUTarget) -> None:
        self.params = params
        self._target = target
        self._autotune = autotune
        self._gpu = gpu
        self._reads = Reads()

    @property
    def name(self) -> str:
        """The target's."""
        return self._target.name

    def fingerprint(self) -> Hashable:
        """Of the host function and all it is run with; None where nobody can tell whether it is the same again."""
        code = fingerprint(self._target.call)
        given = repr((sorted(self.params.items()), sorted(self._autotune.items())))
        return code and (self._target.name, code, given, self._gpu)

    def same_at(self, point: Mapping[str, int], free: Free, events: list[Event]) -> bool:
        """Whether with the symbols at this point the function reads the same data and launches the kernels of `events`."""
        others = {name: point[kept] for name, kept in free.same.items()}
        there = _Runner(self._target, {**self.params, **point, **others}, self._autotune, self._gpu)
        if self._reads.values:
            try:
                there.read_data()
            except (Exception, SystemExit):  # whatever the user's function raises there
                return False
            if repr(there._reads.values) != repr(self._reads.values):
                return False
        plain = there.run(Free({}))
        if plain.error is not None:
            return False
        ours, theirs = (
            [anonymous(event) for event in run if isinstance(event, CapturedLaunch)] for run in (events, plain.events)
        )
        return agree(ours, theirs, _at(point))

    def read_data(self) -> None:
        """Runs the function on tensors with data, to learn what it reads of them. Raises what the function raises."""
        reads, written, symbols, events = Reads(), Written(), Symbols({}), list[Event]()

        def launched(launch: CapturedLaunch, arguments: Mapping[str, Any]) -> None:
            traffic = kernel_traffic(launch, {}, self._gpu)
            touched = {access.tensor.partition("[")[0] for access in traffic.accesses if access.kind != "read"}
            written.add(tensor_of(arguments[name]) for name in touched & arguments.keys())

        interceptor = Interceptor(symbols, events, self._autotune, self._gpu, launched)
        with _environment(), recording(reads, written), interceptor, written:
            work = work_of(self._target.call(device="cuda", **self.params))
            if work is not None:
                work.run()
        self._reads = reads

    def run(self, free: Free) -> _Run:
        """With the parameters of `free` symbolic. What the function raises is in `error`; ioaware's own errors too."""
        run = _Run(Symbols(free.values, free.same))
        interceptor = Interceptor(run.symbols, run.events, self._autotune, self._gpu)
        try:
            told = replaying(self._reads, run.symbols)
            with _environment() as stand_in, without_torch_compile():
                without_memory = Memoryless(run.symbols.shapes)
                with without_memory, RandomLike(), told, interceptor, symbolic_extremes(), quick_quotients():
                    self._work(run, interceptor)
            run.notes = stand_in.notes
        except (Exception, SystemExit) as error:
            run.error = error if isinstance(error, Exception) else UsageError(f"{self._target.name} exits")
        return run

    def _work(self, run: _Run, interceptor: Interceptor) -> None:
        def described(name: str, read_bytes: Any, write_bytes: Any) -> CapturedOperator:
            return CapturedOperator(name, run.symbols.expression(read_bytes), run.symbols.expression(write_bytes))

        def watched(function: Callable[[], object]) -> object:
            run.events.clear()
            with OperatorRecorder(run.events, described):
                return function()

        outcome = watched(lambda: self._target.call(device="cuda", **{**self.params, **run.symbols.ints}))
        work: Work | None = work_of(outcome)
        if work is not None:
            interceptor.forget()
            outcome = watched(work.run)
        run.returned = interceptor.numbers(outcome)

    def culprit(self, free: Free, error: Exception) -> dict[str, str]:
        """The parameter that the function cannot take as a symbol: the one without which it gets further, or all."""
        said = str(error)
        for name in sorted(free.values, key=lambda name: name not in said):
            without = self.run(free.without(name))
            if without.error is None or _signature(without.error) != _signature(error):
                return {name: f"the host function needs a plain integer{_where(error)}"}
        reason = f"the host function cannot run on symbols: {type(error).__name__}{_where(error)}"
        return dict.fromkeys(free.values, reason)


@contextmanager
def _environment() -> Generator[Any]:
    """Host code sees a GPU, prints to stderr, and leaves the random state as it was."""
    with redirect_stdout(sys.stderr), _random.fork_rng(devices=[]), cuda_on_cpu() as stand_in, WithoutGenerators():
        _random.manual_seed(0)
        yield stand_in


def _with_data(target: Target, runner: _Runner) -> _Run:
    """The plain run again, after the function was given data to read. Raises what it raises then."""
    try:
        runner.read_data()
    except (Exception, SystemExit) as error:
        raise _user_error(target, error if isinstance(error, Exception) else UsageError(f"{target.name} exits")) from error
    return runner.run(Free({}))


def _at(values: Mapping[str, int]) -> Callable[[Expr], Expr]:
    """Substitutes the given values."""

    def substituted(expr: Expr) -> Expr:
        found: Any = expr
        return found.xreplace({symbol: sympy.Integer(values[str(symbol)]) for symbol in found.free_symbols})

    return substituted


def _signature(error: Exception) -> tuple[type, str, str | None]:
    return type(error), str(error), failing_line(error)


def _where(error: Exception) -> str:
    line = failing_line(error)
    return f" at {line}" if line else ""


def _pins(pinned: Mapping[str, str], params: Mapping[str, ParamValue]) -> tuple[str, ...]:
    return tuple(f"{name} specialised to {params[name]} ({reason})" for name, reason in pinned.items())


def _user_error(target: Target, error: Exception) -> IoawareError:
    """An exception out of the user's function as one sentence with its line; ioaware's own errors as they are."""
    if isinstance(error, IoawareError):
        return error
    where = _where(error)
    if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode"):
        return ReadsDataError(
            f"the host function reads a tensor's data{where}, and a derivation has no data",
            "Trace it, or give what it reads as a parameter.",
        )
    return UsageError(
        f"{target.name} raised {type(error).__name__}{where}: {first_line(error)}", "The function must run by itself first."
    )
