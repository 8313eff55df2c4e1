"""Trace a target.

Its kernels run in Triton's interpreter, and every access is counted under its mask.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ioaware.capture.capture import DEFAULT_GPU
from ioaware.capture.host.host_state import host_state_restored
from ioaware.capture.parameter_names import ParameterNames
from ioaware.case import Work
from ioaware.environment import software_environment
from ioaware.errors import IoawareError, NoKernelError, UsageError
from ioaware.fakegpu.aten.aten_traffic import OperatorRecorder
from ioaware.fakegpu.autotuning import chooses, no_choice_error
from ioaware.fakegpu.cuda_stand_in import StandIn
from ioaware.fakegpu.custom_ops import CudaImplementations
from ioaware.fakegpu.fake_cuda import cuda_on_cpu
from ioaware.fakegpu.host_caller import is_library
from ioaware.fakegpu.host_clock import seeded_host_clock
from ioaware.fakegpu.host_random import seeded_host_random
from ioaware.fakegpu.host_tensors import HostTensors, all_on_gpu_note
from ioaware.fakegpu.replaced_names import one_look
from ioaware.fakegpu.storages import AllocationTracker
from ioaware.fakegpu.torch_settings import torch_settings_restored
from ioaware.result import Check, Launch, ParamValue, Result, total
from ioaware.targets.loading import remedy_of, what_raised
from ioaware.targets.module_state import module_state_restored
from ioaware.targets.output_check import tensors, worst_error
from ioaware.targets.set_order import executed_code, lines_in_set_order, set_order_notes
from ioaware.targets.target import Target, compulsory_bytes, work_of
from ioaware.targets.tensor_params import is_placeholder
from ioaware.torchcompile.compile_hooks import compiled_code_forgotten, torch_compile_on_fake_gpu
from ioaware.tracing.byte_counter import ByteCounter, count_accesses
from ioaware.tracing.interpreter import InterpretedLaunch, interpret_kernels
from ioaware.tracing.observer import Observer
from ioaware.tracing.poison import Poison
from ioaware.tracing.trace_progress import Progress

SEED = 0
_random: Any = torch.random


@dataclass
class Recording:
    """Launches in order, extra memory and return value of one run of a function."""

    launches: list[Launch] = field(default_factory=list[Launch])
    extra_memory_bytes: int = 0
    output: object = None


def trace(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    autotune: Mapping[str, ParamValue] | None = None,
    report: Callable[[str], None] | None = None,
    observer: Observer | None = None,
    eager: bool = False,
    compiles: bool = False,
) -> Result:
    """Count what the work of `target` requests at `params`.

    The counts are bytes, sectors, atomics, FLOPs and extra memory.

    Inputs and work run on the CPU with a fixed random seed; the host code sees a fake GPU. `autotune` picks the configuration
    of autotuned kernels by value, as in `{"BLOCK": 64}`; the default is their first. `report` is called with a sentence on
    the progress every 5 s. `eager` runs functions of torch.compile uncompiled.
    `observer` sees every launch, program, loop, assignment and access. `compiles` notes launches that no GPU runs: each kernel
    is compiled for that, which takes longer than a short trace.
    Raises `UsageError` when the target launches no kernel, or raises: the message names the exception and its line.
    """
    host_tensors = HostTensors()
    try:
        return _traced(target, params, Tracer(autotune or {}, report, observer, eager, host_tensors, compiles=compiles))
    except UsageError as error:
        if not host_tensors.mattered:
            raise
        result = _traced(target, params, Tracer(autotune or {}, report, observer, eager, compiles=compiles))
        notes = (*result.notes, all_on_gpu_note(error))
        return replace(result, notes=notes, exact=result.exact and not isinstance(error, NoKernelError))


def _traced(target: Target, params: Mapping[str, ParamValue], tracer: Tracer) -> Result:
    """Trace with the tensors of the host, if any, where they are."""
    values, progress, autotune = target.resolve(params), tracer.progress, tracer.autotune
    with (
        progress or nullcontext(),
        module_state_restored(),
        host_state_restored(target.call),
        compiled_code_forgotten(),
        tracer.environment() as stand_in,
        user_errors(target.name),
    ):
        with executed_code(is_library) as executed:
            building = tracer.record(lambda: target.call(device="cuda", **values))
            work = work_of(building.output)
            if work is None:  # it was all work
                work, recording = Work(run=lambda: building.output), building
            else:
                recording = tracer.record(work.run)
        check = _check(work, recording.output)
        imported = stand_in.imported_for_others(executed.codes.values())
        doubts = (*set_order_notes(lines_in_set_order(executed)), *imported)
        notes = (*stand_in.notes, *doubts, *_placeholder_notes(work), *_check_notes(check))
    _refuse_without_choice(target.name, autotune, recording.launches)
    result = _result(target, values, recording, check, notes)
    return replace(result, exact=False) if stand_in.differences or doubts else result


def _refuse_without_choice(target: str, autotune: Mapping[str, ParamValue], launches: Sequence[Launch]) -> None:
    """Raise `UsageError` for values of a configuration where no kernel has a choice."""
    if autotune and not chooses(note for launch in launches for note in launch.notes):
        raise no_choice_error(target, autotune)


class Tracer:
    """Runs functions under the fake GPU, the interpreter and the recorders."""

    def __init__(
        self,
        autotune: Mapping[str, ParamValue],
        report: Callable[[str], None] | None,
        observer: Observer | None,
        eager: bool,
        host_tensors: HostTensors | None = None,
        *,
        compiles: bool = False,
    ) -> None:
        self.autotune = autotune
        self.progress = Progress(report) if report else None
        self._eager = eager
        self._host_tensors = host_tensors
        self._observer = observer
        self._compiles = compiles
        self._names = ParameterNames()
        self.launches: list[Launch] = []

    @contextmanager
    def environment(self) -> Generator[StandIn]:
        """Enter the fake GPU and the interpreter.

        stdout goes to stderr, and the random seed is fixed.
        """
        with ExitStack() as stack:
            enter = stack.enter_context
            with one_look():
                enter(redirect_stdout(sys.stderr))
                enter(_random.fork_rng(devices=[]))
                enter(seeded_host_random(SEED))
                enter(seeded_host_clock(SEED))
                stand_in = enter(cuda_on_cpu(self._host_tensors))
            enter(torch_settings_restored())
            enter(torch_compile_on_fake_gpu(stand_in, eager=self._eager))
            seen = self.progress, self._observer
            enter(interpret_kernels(self.launch, self.autotune, *seen, DEFAULT_GPU, compiles=self._compiles))
            _random.default_generator.manual_seed(SEED)  # of the CPU alone, which makes the numbers of the fake GPU
            yield stand_in

    def record(self, function: Callable[[], object]) -> Recording:
        """Run `function` and record it, without garbage collection.

        With that lifetimes are deterministic.
        """
        self.launches = []
        if self._observer:
            self._observer.begin()
        memory = AllocationTracker()
        with no_garbage_collection(), Poison(), memory, OperatorRecorder(self.launches), CudaImplementations():
            output = function()
        return Recording(self.launches, memory.extra_bytes(output), output)

    @contextmanager
    def launch(self, launch: InterpretedLaunch) -> Generator[None]:
        """Count a launch, whose programs run inside the block."""
        if self._host_tensors:
            self._host_tensors.refuse(launch.arguments.values())
        counter, names = ByteCounter(), self._names.of(launch.arguments) or None
        with count_accesses(counter, self._observer):
            yield
        moved = counter.traffic()
        only_here = (f"only the interpreter runs this launch: {launch.failure}",) if launch.failure else ()
        self.launches.append(
            Launch(
                launch.kernel,
                launch.grid,
                requested=moved,
                flops=counter.flops,
                exact=launch.failure is None,
                notes=(*launch.notes, *only_here, *counter.notes),
                parameters=names,
            )
        )


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """Collect no garbage inside the block, so that lifetimes are deterministic."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def user_errors(target: str) -> Generator[None]:
    """Turn an exception of the user's code into a `UsageError` with its line.

    Pass ioaware's errors through.
    """
    try:
        yield
    except (IoawareError, KeyboardInterrupt):
        raise
    except BaseException as error:
        missing = isinstance(error, (AttributeError, NotImplementedError)) and "nterpreter" in str(error)
        remedy = "Triton's interpreter lacks what this kernel uses." if missing else remedy_of(error)
        raise UsageError(what_raised(target, error), remedy) from error


def _check(work: Work, output: object) -> Check | None:
    """Compare the outputs with the work's float64 reference, if it has one."""
    if work.reference is None or work.tolerance is None:
        return None
    outputs = tensors(output)
    if not outputs:
        raise UsageError("the work has a reference but returned no tensor", "Return the output from the work.")
    return Check(worst_error(outputs, work.reference()), work.tolerance)


def _placeholder_notes(work: Work) -> tuple[str, ...]:
    names = [name for name, tensor in work.arguments.items() if is_placeholder(tensor)]
    return tuple(f"{name} was not given values: zeros stand for them" for name in names)


def _check_notes(check: Check | None) -> tuple[str, ...]:
    if check is None or check.passed:
        return ()
    return (f"the output is wrong: relative error {check.relative_error:.3g}, allowed {check.tolerance:.3g}",)


def _result(
    target: Target,
    values: Mapping[str, ParamValue],
    recording: Recording,
    check: Check | None,
    notes: tuple[str, ...],
) -> Result:
    kernels = [launch for launch in recording.launches if launch.origin == "triton"]
    operators = [launch for launch in recording.launches if launch.origin == "torch"]
    if not kernels:
        raise NoKernelError(
            f"{target.name} launched no Triton kernel",
            "A target launches its kernels when called, or returns the callable that does.",
        )
    return Result(
        source="trace",
        target=target.name,
        params=values,
        requested=total(launch.requested for launch in kernels),
        assumed=total(launch.requested for launch in operators) if operators else None,
        compulsory=compulsory_bytes(target.name, values),
        flops=sum(launch.flops or 0 for launch in kernels),
        extra_memory_bytes=recording.extra_memory_bytes,
        exact=all(launch.exact for launch in kernels),
        notes=notes,
        launches=tuple(recording.launches),
        check=check,
        environment=software_environment(),
    )
