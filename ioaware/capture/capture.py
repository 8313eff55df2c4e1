"""Capture the launches of a host function as formulas of its integer parameters.

The function runs on fake tensors and executes no kernel. It runs at least twice: with plain integers, as the reference, and
with symbols. A parameter that host code needs as an integer is specialised to its value, and the symbolic run is repeated. The
search ends when the symbolic run agrees with the plain run launch by launch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from triton.backends.compiler import GPUTarget

from ioaware.capture.host.host_errors import needs_data, user_error
from ioaware.capture.host.host_run import HostRun
from ioaware.capture.host.host_runner import HostRunner
from ioaware.capture.launch_agreement import agree
from ioaware.capture.other_draws import Chance, look_for_chance
from ioaware.capture.symbolic_params import SymbolicParams
from ioaware.capture.validity import Validity, validity
from ioaware.compilation.execution.program_values import Moved
from ioaware.compilation.instructions.merged_loads import specialised_to_one
from ioaware.compilation.launches import CapturedLaunch, Event
from ioaware.errors import NoKernelError, UsageError
from ioaware.fakegpu.autotuning import Override
from ioaware.fakegpu.host_tensors import all_on_gpu_note
from ioaware.fakegpu.replaced_names import names_kept
from ioaware.result import ParamValue
from ioaware.symints.guards import Condition
from ioaware.targets.target import Target

DEFAULT_GPU = GPUTarget("cuda", 90, 32)


@dataclass(frozen=True)
class Capture:
    """The launches and torch operators of a work, in order.

    They are formulas of its symbolic parameters.
    """

    events: list[Event]
    values: Mapping[str, int]
    """The symbolic parameters and their given values."""
    notes: tuple[str, ...] = ()
    returned: frozenset[int] = frozenset()
    """The storages of the tensors that the work returned."""
    validity: Validity | None = None
    """The other parameter values for which the launches are the same."""
    moved: Mapping[int, Moved | str] = field(default_factory=dict[int, Moved | str])
    """Bytes of launches with the index tensors that host code built.

    The reason stands in their place where they are unknown, and both are by number of the launch.
    """
    is_example: bool = False
    """Whether the launches may be others.

    Chance decides them, or state that earlier calls left, values that were not given, or operators that torch traces on
    a CPU alone.
    """

    @property
    def launches(self) -> list[CapturedLaunch]:
        """The Triton and Gluon kernels alone."""
        return [event for event in self.events if isinstance(event, CapturedLaunch)]


@names_kept()
def capture(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    autotune: Mapping[str, ParamValue | Override] | None = None,
    gpu: GPUTarget = DEFAULT_GPU,
    refused: dict[str, str | None] | None = None,
    eager: bool = False,
    on_launches: Callable[[Sequence[CapturedLaunch]], None] | None = None,
) -> Capture:
    """Return the launches that the work of `target` makes on `gpu`.

    They are those at resolved `params`, and the GPU need not exist.

    `on_launches` receives the launches of the plain run, before the search with symbols begins.
    `autotune` selects the configuration of autotuned kernels by value, or overrides a constexpr.
    `refused` maps configurations that cannot run to the reason; those that do not compile are
    added to it. `eager` runs functions of torch.compile uncompiled; then there may be no Triton
    kernel. Raises `UsageError` when the function raises, reads a tensor's data, or launches no Triton kernel.
    """
    runner = HostRunner(target, dict(params), dict(autotune or {}), gpu, {} if refused is None else refused, eager=eager)
    plain = _plain_run(runner)
    if on_launches:
        on_launches([event for event in plain.events if isinstance(event, CapturedLaunch)])
    if plain.chance and _chance_decides(plain, runner):
        return _random_run(plain, runner)
    key = runner.fingerprint()
    alike = _alike.get() or _Alike()
    symbolic = (
        _cached_search(key, _search_cache)
        or _cached_search(runner.function_and_params, alike.searches)
        or SymbolicParams({name: value for name, value in params.items() if type(value) is int and value >= 1})
    )
    while True:
        run = runner.run(symbolic)
        if run.equality is not None:
            symbolic.merge(run.equality)
            continue
        new = run.pinned
        if not new and run.error is None and agree(run.events, plain.events, symbolic.values, runner.gpu):
            alike.searches[runner.function_and_params] = symbolic.copy()
            if key is not None:
                _search_cache[key] = symbolic.copy()
            return _assemble(runner, symbolic, run, plain)
        if not symbolic.values:
            return _first_call(plain, run, runner)
        if not new and run.error is not None:
            new = runner.parameters_to_pin(symbolic, run.error)
        suspects = sorted(run.symbols.keys & symbolic.values.keys()) or symbolic.suspects
        symbolic.pin(new or dict.fromkeys(suspects, "the launches depend on it in another way than symbols show"))


def _plain_run(runner: HostRunner) -> HostRun:
    """Run with plain integers, reading data where host code needs it.

    Where tensors on the CPU are in the way, all are taken to be on the GPU from then on. Raises `UsageError`.
    """
    try:
        return _run_as_written(runner)
    except UsageError as error:
        if not (runner.host_tensors and runner.host_tensors.mattered):
            raise
        runner.host_tensors = None
        plain = _run_as_written(runner)
        plain.notes += (all_on_gpu_note(error),)
        plain.may_differ |= isinstance(error, NoKernelError)
        return plain


def _run_as_written(runner: HostRunner) -> HostRun:
    """Run with plain integers, with data if host code needs them.

    Raises `UsageError`.
    """
    plain = runner.run(SymbolicParams({}))
    if plain.error is not None and needs_data(runner.name, plain.error):
        plain = runner.plain_run_with_data()
    if plain.error is not None:
        raise user_error(runner.name, plain.error)
    if not any(isinstance(event, CapturedLaunch) or runner.eager for event in plain.events):
        raise NoKernelError(
            f"{runner.name} launched no Triton kernel",
            "A target launches its kernels when called, or returns the callable that does.",
        )
    return plain


@dataclass
class _Alike:
    """What captures of one configuration found, for others of the same target."""

    chance: dict[Hashable, Chance] = field(default_factory=dict[Hashable, Chance])
    searches: dict[Hashable, SymbolicParams] = field(default_factory=dict[Hashable, SymbolicParams])


_alike: ContextVar[_Alike | None] = ContextVar("alike", default=None)


@contextmanager
def alike_configurations() -> Generator[None]:
    """Inside the block, host code is the same in all configurations of a target.

    Chance decides launches in all or in none, as the first capture finds. The search for symbols begins where that one ended.
    """
    token = _alike.set(_Alike())
    try:
        yield
    finally:
        _alike.reset(token)


def _chance_decides(plain: HostRun, runner: HostRunner) -> bool:
    """Return whether chance decides launches, and mark those that read drawn contents."""
    alike, key = _alike.get(), runner.function_and_params
    chance = alike.chance.get(key) if alike else None
    if chance is None:
        chance = look_for_chance(plain, runner, _plain_run)
    if alike:
        alike.chance[key] = chance
    chance.mark(plain.moved)
    return chance.decides


_search_cache: dict[Hashable, SymbolicParams] = {}
SEARCH_CACHE_SIZE = 256


def _cached_search(key: Hashable, searches: dict[Hashable, SymbolicParams]) -> SymbolicParams | None:
    """Return where an earlier search over the same host code and parameters ended.

    The result is verified like any other. At worst it specialises a parameter that could have stayed symbolic.
    """
    if len(searches) >= SEARCH_CACHE_SIZE:
        searches.clear()
    return searches[key].copy() if key in searches else None


def _assemble(runner: HostRunner, symbolic: SymbolicParams, run: HostRun, plain: HostRun) -> Capture:
    """Return the capture of a symbolic run that agrees with the plain run.

    The conditions of the symbolic run are included.
    """
    decisions = run.symbols.decisions.values()
    events, ones = _specialised(run.events, symbolic.values, runner.gpu)
    read = tuple(dict.fromkeys(decision.note for decision in decisions if decision.condition is None))
    holds = validity(
        runner.name,
        symbolic.values,
        [*(decision.condition for decision in decisions if decision.condition), *ones],
        run.symbols.implicit.values(),
        limits=run.symbols.limits,
        reads_data=bool(read),
        same_at=lambda point: runner.same_at(point, symbolic, run.events),
    )
    assumed = dict.fromkeys(f"assumes {condition} ({condition.reason})" for condition in holds.conditions)
    invented = _invented(runner)
    notes = (*plain.notes, *_pins(symbolic.pinned, runner.params), *symbolic.equalities, *read, *assumed, *invented)
    return Capture(events, symbolic.values, notes, run.returned, holds, plain.moved, bool(invented) or plain.may_differ)


def _specialised(events: Sequence[Event], values: Mapping[str, int], gpu: GPUTarget) -> tuple[list[Event], list[Condition]]:
    """Return the events as compiled at `values`, and the conditions of that."""
    found: list[Event] = []
    conditions: dict[Condition, None] = {}
    for event in events:
        if isinstance(event, CapturedLaunch):
            event, needed = specialised_to_one(event, values, gpu)
            conditions |= dict.fromkeys(needed)
        found.append(event)
    return found, list(conditions)


def _invented(runner: HostRunner) -> tuple[str, ...]:
    """Return a note where the function reads values that were not given."""
    lines = " and ".join(runner.invented_reads)
    return (f"the host function reads integers at {lines} that -p gives no values: zeros stand for them",) if lines else ()


def _first_call(plain: HostRun, again: HostRun, runner: HostRunner) -> Capture:
    """Return the plain run of a function that differs when called again.

    The function behaves differently then, and the run is for its given values only.
    """
    what = f"raises {type(again.error).__name__}" if again.error is not None else "makes other launches"
    note = f"{runner.name} {what} when it is called again: the numbers are those of its first call, at the given values only"
    invented = _invented(runner)
    notes = (*plain.notes, note, *invented)
    return Capture(plain.events, {}, notes, plain.returned, moved=plain.moved, is_example=True)


def _random_run(plain: HostRun, runner: HostRunner) -> Capture:
    """Return the plain run of a function whose launches chance decides."""
    note = f"{runner.name} {plain.chance}, and its launches depend on it: the numbers are those of one run"
    return Capture(plain.events, {}, (*plain.notes, note), plain.returned, moved=plain.moved, is_example=True)


def _pins(pinned: Mapping[str, str], params: Mapping[str, ParamValue]) -> tuple[str, ...]:
    return tuple(f"{name} specialised to {params[name]} ({reason})" for name, reason in pinned.items())
