"""Run the host function once and record its launches.

It runs with fake tensors and symbolic integers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import CodeType
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.capture.data_reads.read_values import PROBES, DataReads
from ioaware.capture.data_reads.replay import recording, replaying
from ioaware.capture.data_reads.storage_marks import RandomMarks, StorageMarks
from ioaware.capture.executions import Executions
from ioaware.capture.fake_tensors import (
    CudaFakeTensorMode,
    EmptyRandomTensors,
    copies,
    failures_unlogged,
    module_conversions,
    symbolic_widths,
)
from ioaware.capture.fingerprint import fingerprint
from ioaware.capture.host.host_environment import host_environment
from ioaware.capture.host.host_errors import failure, raised, user_error, where
from ioaware.capture.host.host_run import HostRun, launches_of
from ioaware.capture.host.host_state import HostState
from ioaware.capture.host.second_call import MORE_LATER, compares_second_calls, only_later
from ioaware.capture.index_data import IndexData
from ioaware.capture.interceptor import STORAGE_SPACING, Interceptor
from ioaware.capture.launch_agreement import NOWHERE, agree
from ioaware.capture.printed_tensors import NO_COPIES, PRINTS
from ioaware.capture.real_types import real_types
from ioaware.capture.symbolic_builtins import symbolic_builtins
from ioaware.capture.symbolic_params import SymbolicParams
from ioaware.capture.tensor_subclasses import tensor_subclasses
from ioaware.case import Work
from ioaware.compilation.launch_traffic import kernel_traffic
from ioaware.compilation.launches import (
    CapturedLaunch,
    CapturedOperator,
    Event,
    tensor_of,
    without_addresses,
)
from ioaware.display.work_deadline import step
from ioaware.fakegpu.aten.aten_traffic import OperatorRecorder
from ioaware.fakegpu.cuda_stand_in import StandIn
from ioaware.fakegpu.custom_ops import CudaImplementations
from ioaware.fakegpu.host_caller import is_library
from ioaware.fakegpu.host_tensors import HostTensors
from ioaware.fakegpu.replaced_names import one_look
from ioaware.symints.host_line import ReadsDataError, host_code_of
from ioaware.symints.symbols import Symbols, cheap_simplify
from ioaware.symints.without_dynamo import without_torch_compile
from ioaware.targets.other_threads import starts_noted
from ioaware.targets.set_order import executed_code, lines_in_set_order, set_order_notes
from ioaware.targets.target import Target, work_of
from ioaware.targets.tensor_params import is_placeholder


class HostRunner:
    """Run the host function of a target with some of its parameters symbolic."""

    def __init__(
        self,
        target: Target,
        params: dict[str, Any],
        autotune: dict[str, Any],
        gpu: GPUTarget,
        refused: dict[str, str | None],
        *,
        eager: bool = False,
        seed: int = 0,
    ) -> None:
        self.params = params
        self._seed = seed
        self._target = target
        self._autotune = autotune
        self.gpu = gpu
        self._refused = refused
        self._choices = autotune, gpu, refused
        self.eager = eager
        self._reads = DataReads()
        self._recorded: list[Event] = []
        """Launches of the run that read the data."""
        self._executions = Executions()
        self._executed: dict[CodeType, dict[str, Any]] = {}
        """Host code that the first plain run ran, with its global variables."""
        self._set_lines: tuple[str, ...] | None = None
        self._state = HostState(target.call)
        self._stand_in = StandIn(gpu)
        """What depends on the GPU, in all runs.

        Later ones find what the first compiled.
        """
        self.host_tensors: HostTensors | None = HostTensors()
        """The tensors that are on the host beside a GPU too.

        None where all are taken to be on the GPU.
        """
        self._calls_again = compares_second_calls() and not seed
        self._more_later = ""

    @property
    def name(self) -> str:
        """The target's name."""
        return self._target.name

    @property
    def function_and_params(self) -> Hashable:
        """Name of the target and its parameters, whatever the configuration."""
        return self.name, repr(sorted(self.params.items()))

    def fingerprint(self) -> Hashable:
        """Return a key of the host function and its inputs.

        None where its state is opaque.
        """
        code = fingerprint(self._target.call)
        given = repr((sorted(self.params.items()), sorted(self._autotune.items()), sorted(map(str, self._refused.items()))))
        return code and (self._target.name, code, given, self.gpu, self.eager)

    def at_seed(self, seed: int) -> HostRunner:
        """Return a runner of the same function that draws other random numbers.

        They are those of Python and NumPy. It also reads other times.
        """
        return self._another(self.params, seed)

    def _another(self, params: dict[str, Any], seed: int = 0) -> HostRunner:
        """Return a runner of the same function at other parameters or another seed."""
        runner = HostRunner(self._target, params, self._autotune, self.gpu, self._refused, eager=self.eager, seed=seed)
        runner.host_tensors = self.host_tensors and HostTensors()
        runner._calls_again = False
        runner._executed, runner._set_lines = self._executed, self._set_lines
        runner._executions = self._executions.of_other_draw() if seed else self._executions
        return runner

    def same_at(self, point: Mapping[str, int], symbolic: SymbolicParams, events: list[Event]) -> bool:
        """Return whether a plain run at `point` makes the launches of `events`.

        It must also read the same data.
        """
        others = {name: point[kept] for name, kept in symbolic.same.items()}
        there = self._another({**self.params, **point, **others})
        if self._reads.values:
            try:
                there.read_data()
            except (Exception, SystemExit):  # whatever the user's function raises at this point
                return False
            if not there._reads.same(self._reads):
                return False
        plain = there.run(SymbolicParams({}))
        if plain.error is not None:
            return False
        return agree(launches_of(events), launches_of(plain.events), point, self.gpu)

    @property
    def invented_reads(self) -> tuple[str, ...]:
        """Lines that read what follows from values that were not given."""
        return tuple(self._reads.invented)

    def read_data(self) -> None:
        """Run the function on tensors with data and record what it reads of them.

        Raises what the function raises.
        """
        reads, written, placeholders, random = DataReads(), StorageMarks(), StorageMarks(), RandomMarks()
        symbols, events = Symbols({}), list[Event]()

        def on_launch(launch: CapturedLaunch, arguments: Mapping[str, Any]) -> None:
            traffic = kernel_traffic(launch, {}, self.gpu)
            names = {access.tensor.partition("[")[0] for access in traffic.accesses if access.kind != "read"}
            written.add(tensor_of(arguments[name]) for name in names & arguments.keys())

        interceptor = Interceptor(symbols, events, *self._choices, on_launch, self.host_tensors)
        try:
            with (
                self._environment(),
                recording(reads, written, placeholders, random),
                interceptor,
                written,
                placeholders,
                random,
                CudaImplementations(),
            ):
                work = work_of(self._target.call(device="cuda", **self.params))
                if work is not None:
                    events.clear()
                    placeholders.add(filter(is_placeholder, work.arguments.values()))
                    work.run()
        finally:
            self._state.restore()
        self._reads, self._recorded = reads, launches_of(events)

    def run(self, symbolic: SymbolicParams) -> HostRun:
        """Run with these parameters symbolic.

        `error` of the result is what the function raised.
        """
        step()
        run = HostRun(Symbols(symbolic.values, symbolic.same))
        index_data = None if symbolic.values or self._reads.kernel_floats else IndexData(self._executions)
        if index_data is not None:
            run.moved = index_data.moved

        again: list[bool] = []
        """Not empty while the work is called a second time."""

        def on_launch(launch: CapturedLaunch, arguments: Mapping[str, Any]) -> None:
            if index_data is not None and not again:
                index_data.launch(
                    sum(isinstance(event, CapturedLaunch) for event in run.events) - 1, launch, arguments, self.gpu
                )

        interceptor = Interceptor(run.symbols, run.events, *self._choices, on_launch, self.host_tensors)
        try:
            exposed: Callable[[Any], None] = index_data.forget if index_data else lambda _: None
            data = replaying(self._reads, run.symbols, exposed)
            with ExitStack() as around:
                with one_look():
                    chance = around.enter_context(self._environment())
                    around.enter_context(without_torch_compile())
                    around.enter_context(symbolic_builtins(self._executed if symbolic.values else {}))
                for each in (symbolic_widths, failures_unlogged, real_types, tensor_subclasses, cheap_simplify):
                    around.enter_context(each())
                fake_tensors = CudaFakeTensorMode(run.symbols.shapes)
                with (
                    self._watched(symbolic),
                    fake_tensors,
                    EmptyRandomTensors(),
                    module_conversions(),
                    copies(),
                    data,
                    interceptor,
                ):
                    work = self._work(run, interceptor, index_data)
                    if work and self._calls_again and not symbolic.values:
                        again.append(True)
                        self._more_later = self._only_later(run, work)
                run.chance = chance()
                if PRINTS in run.chance:
                    run.symbols.assume(f"{NO_COPIES}: torch copies such tensors to the host, and these bytes are not counted")
            if self._more_later:
                run.symbols.assume(f"{MORE_LATER}: {self._more_later} is not in the first, whose formulas these are")
            run.notes, run.may_differ = self._stand_in.notes, bool(self._stand_in.differences)
            imported = self._stand_in.imported_for_others(self._executed.values())
            doubts = (*set_order_notes(self._set_lines or ()), *imported)
            run.notes, run.may_differ = (*run.notes, *doubts), run.may_differ or bool(doubts)
        except (Exception, SystemExit) as error:
            run.error = error if isinstance(error, Exception) else raised(self.name, error)
        finally:
            self._state.restore()
        return run

    @contextmanager
    def _watched(self, symbolic: SymbolicParams) -> Generator[None]:
        """Note where the first plain run that ends uses the order of a set."""
        if symbolic.values or self._set_lines is not None:
            yield
            return
        with executed_code(is_library) as executed:
            yield
        self._executed = executed.codes
        self._set_lines = lines_in_set_order(executed)

    def _work(self, run: HostRun, interceptor: Interceptor, index_data: IndexData | None) -> Work | None:
        """Run the work, and return it where the target has one beside its inputs."""

        def recorded(function: Callable[[], object]) -> object:
            run.events.clear()
            run.moved.clear()
            bytes_known = not self._reads.unknown_sizes
            recorder = OperatorRecorder(run.events, _operator_of(run)) if bytes_known else nullcontext()
            with starts_noted(run.symbols.assume), recorder, index_data or nullcontext(), CudaImplementations():
                return function()

        outcome = recorded(lambda: self._target.call(device="cuda", **{**self.params, **run.symbols.ints}))
        work: Work | None = work_of(outcome)
        if work is not None:
            interceptor.drop_notes()
            outcome = recorded(work.run)
        run.returned = interceptor.storages_of(outcome)
        return work

    def _only_later(self, run: HostRun, work: Work) -> str:
        """Call the work once more, and return what only this call launches."""
        first = len(run.events)

        try:
            with OperatorRecorder(run.events, _operator_of(run)), CudaImplementations():
                work.run()
            return only_later(run.events[:first], run.events[first:], self.gpu)
        except (Exception, SystemExit):  # a second call that raises moves nothing more
            return ""
        finally:
            del run.events[first:]

    @contextmanager
    def _environment(self) -> Generator[Callable[[], str]]:
        environment = host_environment(self._seed, self.host_tensors, self._stand_in, self._reads, eager=self.eager)
        with host_code_of(self._target.name), environment as created:
            yield created

    def parameters_to_pin(self, symbolic: SymbolicParams, error: Exception) -> dict[str, str]:
        """Return the parameter without which the run gets further than `error`.

        All of them are returned otherwise.
        """
        message = str(error)
        for name in sorted(symbolic.values, key=lambda name: name not in message):
            without = self.run(symbolic.without(name))
            if without.error is None or failure(without.error) != failure(error):
                return {name: f"the host function needs a plain integer{where(error)}"}
        reason = f"the host function cannot run on symbols: {type(error).__name__}{where(error)}"
        return dict.fromkeys(symbolic.values, reason)

    def plain_run_with_data(self) -> HostRun:
        """Read data once, then run with plain integers. Raises what the function raises."""
        try:
            self.read_data()
        except AssertionError as error:  # the run before this one, which has no data, met none
            raise ReadsDataError(
                f"the host function compares what a kernel computed{where(error)}, and a derivation runs no kernel",
                "Leave the comparison out, or trace the function.",
            ) from error
        except (Exception, SystemExit) as error:
            raise user_error(self.name, error if isinstance(error, Exception) else raised(self.name, error)) from error
        run = self.run(SymbolicParams({}))
        if run.error is None:
            self._probe_kernel_results(run)
        if run.error is None and not agree(self._placed(run.events), self._placed(self._recorded), NOWHERE, self.gpu):
            run.may_differ = True
            run.notes += (f"{self.name} makes other launches on real tensors, of which it reads data: trace it",)
        return run

    @staticmethod
    def _placed(events: list[Event]) -> list[Event]:
        """Return the launches without addresses, which differ from run to run."""
        return without_addresses(launches_of(events), STORAGE_SPACING)

    def _probe_kernel_results(self, run: HostRun) -> None:
        """Raise `ReadsDataError` where the launches depend on a computed number.

        A kernel computes it, or how many elements are selected.
        """
        for probe in PROBES[1:] if self._reads.kernel_floats else ():
            self._reads.probe = probe
            self._compare_launches(run, list)
        self._reads.probe = PROBES[0]
        if self._reads.kernel_shapes:
            self._reads.unknown_sizes = True
            self._compare_launches(run, launches_of)
            self._reads.unknown_sizes = False

    def _compare_launches(self, run: HostRun, compared: Callable[[list[Event]], list[Event]]) -> None:
        other = self.run(SymbolicParams({}))
        if other.error is not None or not agree(compared(other.events), compared(run.events), NOWHERE, self.gpu):
            where = " and ".join(dict.fromkeys((*self._reads.kernel_floats, *self._reads.kernel_shapes)))
            raise ReadsDataError(
                f"the host function reads what a kernel computed at {where}, and its launches depend on that number",
                "Trace it.",
            )


def _operator_of(run: HostRun) -> Callable[..., CapturedOperator]:
    """Return what makes an event of an operator's bytes, as formulas of a run."""

    def operator(name: str, read_bytes: Any, write_bytes: Any, products: tuple[Any, str] | None) -> CapturedOperator:
        moved = run.symbols.expression(read_bytes), run.symbols.expression(write_bytes)
        if products is None:
            return CapturedOperator(name, *moved)
        return CapturedOperator(name, *moved, run.symbols.expression(products[0]), products[1])

    return operator
