"""Run trial calls in a session: a fresh state of the host code, and known inputs.

The kernels run in Triton's interpreter and host code sees a fake GPU. Memory that host code allocates without writing is filled
with a byte of the session: an output that shows it was not written.
"""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from ioaware._monkeypatch import Patches
from ioaware.case import Work
from ioaware.errors import UsageError
from ioaware.fakegpu.aten.aten_traffic import ALLOCATIONS, OperatorRecorder
from ioaware.fakegpu.custom_ops import CudaImplementations
from ioaware.fakegpu.storages import OperatorMode, strided_tensors
from ioaware.gate.untrusted.access_coverage import OperatorReads, ReadCoverage, storage_key
from ioaware.gate.untrusted.global_seeds import GlobalSeeds
from ioaware.gate.untrusted.guarded_functions import GuardedFunctions
from ioaware.gate.untrusted.guarded_operators import GuardedOperators
from ioaware.gate.untrusted.host_events import HostEvents, StreamOrder, recorded_host_code
from ioaware.gate.untrusted.input_contents import copies, same_bits
from ioaware.result import Launch, ParamValue
from ioaware.targets.module_state import module_state_restored
from ioaware.targets.output_check import tensors
from ioaware.targets.sibling_modules import ImportingFrom
from ioaware.targets.target import Target, work_of
from ioaware.torchcompile.compile_hooks import compiled_code_forgotten
from ioaware.tracing.interpreter import InterpretedLaunch
from ioaware.tracing.trace import Tracer, no_garbage_collection, user_errors

Mode = Literal["run", "mute", "fail"]
"""Kernels run; run without writing anything; fail to launch."""
LoadTarget = Callable[[], Target]
THREAD_S = 5.0
OVERWRITTEN_BYTE = 0x2A
"""What a caller writes into outputs: 0.0475 in float16, 1.5e-13 in float32."""


class LaunchFailedError(OutOfResources, CompilationError, RuntimeError):
    """A launch that fails in a trial; an error of every class that a launch can raise."""

    def __init__(self) -> None:
        RuntimeError.__init__(self, "this launch fails, as part of a trial")

    def __str__(self) -> str:
        return "this launch fails, as part of a trial"


PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True)
class Call:
    """What one call did.

    Tensors are copies, by the order of the outputs and of the inputs.
    """

    outputs: tuple[torch.Tensor, ...]
    launches: tuple[Launch, ...]
    changed: tuple[str, ...]
    """Inputs that hold other values than before."""
    aliased: tuple[str, ...]
    """Inputs whose memory an output is."""
    unread: tuple[torch.Tensor, ...]
    """For each input, which elements nothing read."""
    events: HostEvents
    same_memory: bool
    """Whether an output has the memory of an earlier call's output."""
    kept: frozenset[int] = frozenset()
    """Numbers of the outputs that nothing in this call wrote.

    That is neither a kernel nor an operator on what one wrote.
    """
    copied: Mapping[int, str] = field(default_factory=dict[int, str])
    """The torch operator whose result an output equals, by the output's number.

    No input equals it.
    """
    subclasses: tuple[str, ...] = ()
    """Names of the outputs' types that are subclasses of a tensor."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the Triton kernels in the order of their launches."""
        return tuple(launch.kernel for launch in self.launches if launch.origin == "triton")

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the torch operators that moved data, each once."""
        return tuple(dict.fromkeys(launch.kernel for launch in self.launches if launch.origin == "torch"))


@dataclass
class Session:
    """A target with its inputs built, ready to be called."""

    target: Target
    work: Work
    inputs: tuple[torch.Tensor, ...]
    names: tuple[str, ...]
    writable: frozenset[str]
    tracer: TrialTracer
    order: StreamOrder
    guard: GuardedFunctions
    operators: GuardedOperators
    byte: int
    seeds: GlobalSeeds
    loading: HostEvents
    """What host code did while the target was loaded and its inputs were built."""
    _outputs: list[torch.Tensor] = field(default_factory=list[torch.Tensor])
    _returned: list[torch.Tensor] = field(default_factory=list[torch.Tensor])

    def call(self, mode: Mode = "run") -> Call:
        """Call the work once. Raises `UsageError` where the function raises."""
        self.order.events = HostEvents()
        self.tracer.begin(mode)
        before, running = copies(self.inputs), self.tracer.threads()
        self.seeds.set()
        with no_garbage_collection(), ExitStack() as stack:
            for context in self._modes():
                stack.enter_context(context)
            try:
                outcome = self.work.run()
            except BaseException:
                self.order.events.pending.clear()  # what it would have waited for is not known
                raise
        self.order.events.seeds += self.seeds.found()
        for thread in self.tracer.threads():
            if thread not in running:  # a pool's thread never ends: it is waited for once
                thread.join(THREAD_S)
        changed = [not same_bits(old, new) for old, new in zip(before, self.inputs, strict=True)]
        written = [tensor for tensor, name in zip(self.inputs, self.names, strict=True) if name in self.writable]
        subclasses = tuple(type(tensor).__name__ for tensor in tensors(outcome) if type(tensor) not in PLAIN_TENSORS)
        with torch._C.DisableTorchFunctionSubclass():  # pyright: ignore[reportPrivateUsage]
            returned = [tensor.as_subclass(torch.Tensor) for tensor in tensors(outcome)]
        outputs = [*returned, *(tensor for tensor in written if not _shares(tensor, returned))]
        same_memory = any(_shares(tensor, self._outputs) for tensor in returned if not _shares(tensor, self.inputs))
        self._outputs += returned
        self._returned = returned
        return Call(
            outputs=tuple(copies(outputs)),
            launches=tuple(self.tracer.launches),
            changed=tuple(name for name, differs in zip(self.names, changed, strict=True) if differs),
            aliased=tuple(n for n, tensor in zip(self.names, self.inputs, strict=True) if _shares(tensor, returned)),
            unread=tuple(self.tracer.coverage.unread(tensor) for tensor in self.inputs),
            events=self.order.events,
            same_memory=same_memory,
            kept=frozenset(n for n, tensor in enumerate(outputs) if not self.tracer.coverage.is_made(tensor)),
            copied={n: name for n, tensor in enumerate(outputs) if (name := self._computed(tensor, before))},
            subclasses=subclasses,
        )

    def _computed(self, output: torch.Tensor, before: Sequence[torch.Tensor]) -> str:
        """Return the torch operator that computed this output in other memory.

        Empty where none did, or where the output is no more than an input or one number.
        """
        if any(same_bits(output, one) for one in before) or not bool((output != output.flatten()[:1]).any()):
            return ""
        results = [(name, one) for name, one in self.tracer.coverage.computed if storage_key(one) != storage_key(output)]
        return next((name for name, one in results if same_bits(output, one)), "")

    def overwrite(self, numbers: Collection[int]) -> None:
        """Overwrite these outputs of the last call, but for those that are inputs."""
        for number, tensor in enumerate(self._returned):
            if number in numbers and not _shares(tensor, self.inputs):
                fill_storage(tensor, OVERWRITTEN_BYTE)

    def _modes(self) -> Iterator[Any]:
        """Yield the modes of a call, the outermost first."""
        yield FilledAllocations(self.byte)
        yield OperatorRecorder(self.tracer.launches)
        yield OperatorReads(self.tracer.coverage, self.order.work)
        yield CudaImplementations()


class TrialTracer(Tracer):
    """Runs kernels in the interpreter, counted, in one of three modes."""

    def __init__(self, autotune: Mapping[str, ParamValue]) -> None:
        self.coverage = ReadCoverage()
        self.mode: Mode = "run"
        self.work: Callable[[], None] = lambda: None
        super().__init__(autotune, None, self.coverage, eager=False)

    def begin(self, mode: Mode) -> None:
        """Begin a call: nothing is launched and nothing read so far."""
        self.mode = mode
        self.launches = []
        self.coverage.begin()

    @contextmanager
    def launch(self, launch: InterpretedLaunch) -> Generator[None]:
        """Count a launch; fail, or let it write nothing, where the mode says so."""
        self.work()
        if self.mode == "fail":
            raise LaunchFailedError
        with ExitStack() as stack:
            if self.mode == "mute":
                stack.enter_context(_nothing_written())
            stack.enter_context(super().launch(launch))
            yield

    @staticmethod
    def threads() -> list[Any]:
        """Return the threads of Python that run beside this one."""
        return [thread for thread in threading.enumerate() if thread is not threading.current_thread() and not thread.daemon]


@contextmanager
def _launches_of_this_thread_only() -> Generator[None]:
    """Refuse launches of other threads: the interpreter runs one launch at a time."""
    here = threading.get_ident()
    run: Callable[..., Any] = vars(JITFunction)["run"]

    def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != here:
            raise UsageError("a kernel is launched from another thread", "Launch it from the thread of the call.")
        return run(kernel, *args, **kwargs)

    with Patches() as patches:
        patches.set(JITFunction, "run", launch)
        yield


@contextmanager
def _nothing_written() -> Generator[None]:
    """Let stores and atomics of the interpreter write nothing.

    An atomic returns zeros.
    """
    from triton.runtime import interpreter as _interpreter

    interpreter: Any = _interpreter
    builder = interpreter.interpreter_builder

    def zeros(position: int, *operands: Any, **_: Any) -> Any:
        value = operands[position]
        return interpreter.TensorHandle(np.zeros_like(value.data), value.dtype)

    with Patches() as patches:
        for name in ("create_masked_store", "create_atomic_store"):
            if hasattr(builder, name):
                patches.set(builder, name, lambda *_, **__: None)  # pyright: ignore[reportUnknownLambdaType]
        patches.set(builder, "create_atomic_rmw", partial(zeros, 2))
        patches.set(builder, "create_atomic_cas", partial(zeros, 1))
        yield


class FilledAllocations(OperatorMode):
    """Fill what `torch.empty` and similar return with a byte; 255 makes a float NaN."""

    def __init__(self, byte: int) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._byte = byte

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if func._schema.name in ALLOCATIONS and "empty" in func._schema.name:
            for tensor in strided_tensors(outcome):
                fill_storage(tensor, self._byte)
        return outcome


def fill_storage(tensor: torch.Tensor, byte: int) -> None:
    """Fill the storage of a tensor with a byte."""
    flat: Any = torch.empty(0, dtype=torch.uint8, device="cpu")
    flat.set_(tensor.untyped_storage()).fill_(byte)


@contextmanager
def trial_session(
    load: LoadTarget,
    params: Mapping[str, ParamValue],
    *,
    byte: int,
    writable: frozenset[str] = frozenset(),
    autotune: Mapping[str, ParamValue] | None = None,
) -> Generator[Session]:
    """Load a target, build its inputs, and give the session that calls it.

    Raises `UsageError` where that fails.
    """
    tracer = TrialTracer(autotune or {})
    seeds = GlobalSeeds()
    states = random.getstate(), np.random.get_state()
    try:
        with (
            module_state_restored(),
            compiled_code_forgotten(),
            tracer.environment(),
            recorded_host_code() as order,
            seeds.noted(),
            _launches_of_this_thread_only(),
            GuardedFunctions() as guard,
            GuardedOperators() as operators,
            user_errors("the target"),
        ):
            tracer.work = order.work
            seeds.set()
            target = load()
            with no_garbage_collection(), FilledAllocations(byte), CudaImplementations():
                outcome = target.call(device="cuda", **target.resolve(params))
            work = work_of(outcome)
            if work is None:
                raise UsageError(
                    f"the inputs of {target.name} are not known: it builds them and computes in one call",
                    'Give them as tensors, -p "x=f32[n=1000]", or let it return the callable that computes.',
                )
            named = _inputs(work)
            _check(target.name, named, writable)
            tracer.coverage.watch(list(named.values()))
            loading = replace(order.events, pending=set(), looks=[])  # modules look at their callers to name classes
            inputs = tuple(named.values())
            yield Session(target, work, inputs, tuple(named), writable, tracer, order, guard, operators, byte, seeds, loading)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _inputs(work: Work) -> dict[str, torch.Tensor]:
    """Return the inputs of a work by name.

    They are its arguments, its inputs, or its closure's tensors.
    """
    numbered = {f"input {number}": tensor for number, tensor in enumerate(work.inputs)}
    return dict(work.arguments) or numbered or dict(_enclosed(work.run))


def _check(name: str, inputs: Mapping[str, torch.Tensor], writable: frozenset[str]) -> None:
    if not inputs:
        raise UsageError(
            f"the inputs of {name} are not known: the callable that it returns holds no tensor",
            'Give them as tensors, -p "x=f32[n=1000]", or return a closure over them.',
        )
    if unknown := sorted(writable - inputs.keys()):
        raise UsageError(f"{name} has no input {', '.join(unknown)}", f"Its inputs: {', '.join(inputs)}.")


def _enclosed(function: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a callable holds.

    It holds them in its closure, its defaults, or the arguments of a partial.
    """
    if isinstance(function, partial):
        held: Sequence[tuple[str, object]] = [(f"argument {at}", value) for at, value in enumerate(function.args)]
        yield from _tensors((*held, *function.keywords.items()))
        yield from _enclosed(function.func)
    elif isinstance(function, ImportingFrom):
        yield from _enclosed(function.run)
    elif inspect.isfunction(function):
        yield from _tensors(inspect.getclosurevars(function).nonlocals.items())
        defaults = {name: one.default for name, one in inspect.signature(function).parameters.items()}
        yield from _tensors(defaults.items())


def _tensors(pairs: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in pairs:
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from _tensors((f"{name}[{at}]", item) for at, item in enumerate(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _shares(tensor: torch.Tensor, others: Sequence[torch.Tensor]) -> bool:
    """Return whether a tensor has the memory of another."""
    return any(storage_key(tensor) == storage_key(other) for other in others)
