"""Run kernel launches in Triton's interpreter, independent of TRITON_INTERPRET.

Inside `interpret_kernels()` a launch `kernel[grid](...)` runs its programs one after the other on CPU tensors. Triton chooses
between compiler and interpreter when a kernel is decorated; here the choice is made per launch. Patched and restored are `run`
of kernels inside the block, and the language and calls of device functions during a launch. A kernel's source is rewritten into
separate functions: the user's modules stay unchanged, and the same kernel still compiles afterwards.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.utils._python_dispatch as _dispatch
import triton.language as _tl
from triton.backends.compiler import GPUTarget
from triton.compiler import code_generator as _code_generator
from triton.compiler import compiler as _compiler
from triton.runtime import interpreter as _interpreter
from triton.runtime import jit as _jit

from ioaware._monkeypatch import Patches
from ioaware.capture.launched_kernel import LaunchedKernel, activate, deactivate
from ioaware.compilation.launch_limits import launch_failure
from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import patch_autotuners, run_one_configuration
from ioaware.targets.loading import failing_line
from ioaware.targets.set_order import code_left_out
from ioaware.tracing.address_space import AddressSpace, OutsideStorageError
from ioaware.tracing.address_space import install as install_translation
from ioaware.tracing.interpreter_fixes import install_fixes
from ioaware.tracing.libdevice import install as install_libdevice
from ioaware.tracing.observer import Observer, observed
from ioaware.tracing.reductions import install as install_reductions
from ioaware.tracing.runnable_configurations import Configurations
from ioaware.tracing.shape_cache import install as install_shape_cache
from ioaware.tracing.source.dead_loads import Usage
from ioaware.tracing.source.loop_index import loop_range
from ioaware.tracing.source.source_rewrite import rewrite
from ioaware.tracing.spin_locks import EndlessLoopError, LoopGuard
from ioaware.tracing.trace_progress import Progress

interpreter: Any = _interpreter
tl: Any = _tl
jit: Any = _jit
compiler: Any = _compiler

_no_modes: Any = _dispatch._disable_current_modes  # pyright: ignore[reportPrivateUsage]
DEFAULT_WARPS = 4
CHECK: Any = tl.core.builtin(lambda: None).__code__
"""Code that a builtin of Triton's language runs before its function.

It checks that it has semantics.
"""
COMPILER_OF_KERNELS: Any = _code_generator
"""Module that is imported before any patch.

It copies the language's `min` and `max` on import.
"""


@dataclass(frozen=True, slots=True)
class InterpretedLaunch:
    """A launch whose programs run in the interpreter, with its arguments by name."""

    kernel: str
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    failure: str | None = None
    """Why the GPU does not run it."""


LaunchContext = Callable[[InterpretedLaunch], AbstractContextManager[None]]
"""Context manager around the programs of a launch."""


def _no_context(launch: InterpretedLaunch) -> AbstractContextManager[None]:
    del launch
    return nullcontext()


@contextmanager
def interpret_kernels(
    around: LaunchContext = _no_context,
    autotune: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    observer: Observer | None = None,
    gpu: GPUTarget | None = None,
    *,
    compiles: bool = False,
) -> Generator[None]:
    """Run kernels launched inside the block in the interpreter.

    Each launch is inside `around`.

    An autotuned kernel runs once, with its first configuration after pruning that has the values of `autotune`. Nothing is
    timed. `progress` is notified of launches and programs, `observer` also of loops and assignments. A grid that `gpu` cannot
    launch is refused, and a configuration that it cannot run is passed over. With `compiles`, any other launch says why
    `gpu` does not run it.
    """
    session = _Session(around, dict(autotune or {}), progress, observer, gpu, compiles=compiles)
    with Patches() as patches:
        for kind in (jit.JITFunction, interpreter.InterpretedFunction):
            patches.set(kind, "run", session.run(kind.run))
        patches.set(compiler.CompiledKernel, "__getitem__", session.relaunch)

        patch_autotuners(patches, session.tuned)
        activate(session.launch)
        try:
            yield
        finally:
            deactivate()


class _Session:
    """The launches of one `interpret_kernels()` block.

    The rewritten functions that they use are kept here, each with its usage.
    """

    def __init__(
        self,
        around: LaunchContext,
        required: Mapping[str, Any],
        progress: Progress | None,
        observer: Observer | None,
        gpu: GPUTarget | None,
        *,
        compiles: bool,
    ) -> None:
        self.around = around
        self.required = required
        self.notes: tuple[str, ...] = ()
        self.gpu = gpu
        self.compiles = compiles
        self.tuning = False
        self.configurations = Configurations(gpu) if gpu else None
        self.functions: dict[Any, Callable[..., Any]] = {}
        self.usages: list[Usage] = []
        self.space = AddressSpace()
        self.guard = LoopGuard()
        self.progress = progress
        self.observer = observer
        self.one_at_a_time = threading.Lock()
        """Held during a launch.

        Why: host code may launch from several threads, and the interpreter has one state.
        """

    def tuned(self, plain: Callable[..., Any], tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an autotuned kernel in one configuration, which the next launch notes."""

        def note(text: str) -> None:
            self.notes = (*notes, text)

        notes, tuning = self.notes, self.tuning
        self.tuning = tuning or len(tuner.configs) > 1  # a subclass calls its base with the one that it chose
        try:
            return run_one_configuration(plain, tuner, args, kwargs, required=self.required, verb="traced", add_note=note)
        finally:
            self.tuning = tuning

    def run(self, compile_and_run: Callable[..., Any]) -> Callable[..., Any]:
        """Return `KernelInterface.run` as a plain function.

        Python binds the kernel to it.

        A warm-up compiles, since host code reads the compiled kernel's resources. It uses Triton's current target and
        temporary caches, so that no later launch finds the result.
        """

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            def compiled() -> Any:
                with Patches() as patches:
                    patches.set(kernel, "device_caches", defaultdict(kernel.create_binder))
                    return compile_and_run(kernel, *args, grid=(1,), warmup=True, **kwargs)

            if warmup:
                return compiled() if isinstance(kernel, jit.JITFunction) else None
            if self.tuning and self.configurations and isinstance(kernel, jit.JITFunction):
                self.configurations.check(kernel, dict(enumerate(args)) | kwargs, compiled)
            arguments = self.launch(kernel, args, grid, kwargs)
            if not isinstance(kernel, jit.JITFunction):
                return None
            options = {name: value for name, value in kwargs.items() if name not in arguments}
            return LaunchedKernel(kernel, arguments, options, compiled)

        return run

    @property
    def relaunch(self) -> Callable[..., Any]:
        """Launch the result of a warm-up, arguments by position.

        It replaces `CompiledKernel.__getitem__`.
        """

        def launcher(compiled: Any, grid: Any) -> Callable[..., object]:
            return lambda *args, **_: self.launch(compiled.src.fn, args, grid, {})  # pyright: ignore[reportUnknownLambdaType]

        return launcher

    def launch(self, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Run every program of the grid, the first axis outermost.

        Return the arguments by parameter.
        """
        with self.one_at_a_time:
            return self._launch(kernel, args, grid, kwargs)

    def _launch(self, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        _refuse_gluon(kernel)
        for hook in kernel.pre_run_hooks:
            hook(*args, **kwargs)
        signature = inspect.signature(kernel.fn)
        bound = signature.bind(*args, **{name: value for name, value in kwargs.items() if name in signature.parameters})
        bound.apply_defaults()
        sizes: Any = grid(dict(bound.arguments)) if callable(grid) else grid
        shape = tuple(map(int, sizes))
        if self.gpu and (failure := launch_failure(shape, None, self.gpu)):
            raise UsageError(
                f"{kernel.fn.__name__}: {failure}", "Give each program more work, or use another axis of the grid."
            )
        constants = {name for name, value in bound.arguments.items() if _is_constant(kernel, signature.parameters[name], value)}
        notes, self.notes = self.notes, ()
        failure = None
        if self.compiles and self.configurations and isinstance(kernel, jit.JITFunction):
            options = {name: value for name, value in kwargs.items() if name not in signature.parameters}
            with _without_warnings():
                failure = self.configurations.failure(kernel, bound.arguments, options)
        around = self.around(InterpretedLaunch(kernel.fn.__name__, shape, bound.arguments, notes, failure))
        language = self._language(kwargs.get("num_warps") or DEFAULT_WARPS)
        with _without_warnings(), code_left_out(), self._translation(), around, language:
            values = {
                name: _constant(value) if name in constants else self._argument(kernel, name, value)
                for name, value in bound.arguments.items()
            }
            if self.observer:
                self.observer.launch(kernel.fn.__name__, shape, self._tensors(bound.arguments))
            try:
                self._programs(kernel, values, shape)
                for usage in self.usages:
                    usage.settle()
            except OutsideStorageError as error:
                raise _outside_error(kernel, error) from error
        return dict(bound.arguments)

    def _tensors(self, arguments: Mapping[str, Any]) -> dict[str, tuple[int, torch.Tensor]]:
        """Return the tensors among a launch's arguments.

        The addresses are those that the kernel sees.
        """
        found = {name: getattr(value, "base", value) for name, value in arguments.items()}
        tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
        return {name: (self.space.address_of(tensor, name), tensor) for name, tensor in tensors.items()}

    def _programs(self, kernel: Any, values: dict[str, Any], shape: tuple[int, ...]) -> None:
        builder, function = interpreter.interpreter_builder, self.function(kernel)
        width, height, depth = (*shape, 1, 1, 1)[:3]
        builder.set_grid_dim(width, height, depth)
        if self.progress:
            self.progress.begin(kernel.fn.__name__, width * height * depth)
        for program in ((x, y, z) for x in range(width) for y in range(height) for z in range(depth)):
            builder.set_grid_idx(*program)
            if self.observer:
                self.observer.program(program)
            try:
                function(**values)
            except Exception as error:
                if failure := next((usage.failure for usage in self.usages if usage.failure), None):
                    raise failure from error  # the program went on without the value
                if isinstance(error, EndlessLoopError):
                    raise _endless_loop_error(kernel, program, error) from error
                raise
            if self.progress:
                self.progress.advance()

    @contextmanager
    def _translation(self) -> Generator[None]:
        """Check and translate addresses at a level below the access counters."""
        with Patches() as patches:
            self.guard.install(interpreter.interpreter_builder, patches)
            install_translation(self.space, interpreter.interpreter_builder, patches)
            yield

    def _argument(self, kernel: Any, name: str, value: Any) -> Any:
        """Return a launch argument in the interpreter's form.

        Raise `UsageError` for a tensor off the CPU.
        """

        def converted(argument: Any) -> Any:
            if isinstance(argument, bool):  # an int32 in Triton's conversion, which its own check refuses
                return tl.tensor(interpreter.TensorHandle(np.array([argument]), tl.int1), tl.int1)
            if not hasattr(argument, "data_ptr"):
                return plain(argument)
            tensor = getattr(argument, "base", argument)
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "cpu":
                raise UsageError(
                    f"{kernel.fn.__name__} was given {name} on {tensor.device}: a trace runs on the CPU",
                    "Allocate inside the function, or pass tensors that are on the CPU.",
                )
            kind = tl.str_to_ty(jit.mangle_type(argument), None)
            address = np.array([self.space.address_of(argument, name)], np.uint64)
            return tl.tensor(interpreter.TensorHandle(address, kind), kind)

        with Patches() as patches:
            plain: Callable[[Any], Any] = patches.set(interpreter, "_implicit_cvt", converted)
            return converted(value)

    @contextmanager
    def _language(self, num_warps: int) -> Generator[None]:
        """Patch Triton's language to work on numpy arrays.

        Device functions become callable. `num_warps` is what a kernel sees of its launch.
        """
        with Patches() as patches:
            patches.set(interpreter, "_patch_attr", _bind)
            scope = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
        try:
            with Patches() as patches:
                for kind in (jit.JITFunction, interpreter.InterpretedFunction):
                    patches.set(kind, "__call__", lambda callee, *args, **kwargs: self.function(callee)(*args, **kwargs))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]
                for name, member in list(tl.tensor.__dict__.items()):
                    if isinstance(member, jit.JITFunction):  # x.sum(axis): a plain function, so that Python binds x to it
                        patches.set(tl.tensor, name, _method(member))
                install_fixes(patches)
                install_libdevice(patches)
                install_reductions(patches, self.function)
                patches.set(tl, "range", loop_range)
                patches.set(tl.extra.cuda, "num_warps", lambda: num_warps)
                patches.set(tl.extra.cuda, "num_threads", lambda: 32 * num_warps)
                # The interpreter checks every operation for integer overflow and drops the outcome unless debugging.
                builder = interpreter.interpreter_builder
                patches.set(builder, "options", replace(builder.options, sanitize_overflow=False))
                install_shape_cache(patches)
                yield
        finally:
            scope.restore()

    def function(self, kernel: Any) -> Callable[..., Any]:
        """Return the rewritten form of a kernel or device function, built once per block."""
        source = kernel.fn
        if source not in self.functions:
            function, usage = rewrite(kernel, self.guard.new_loop, self.observer)
            self.usages += [usage] if usage is not None else []
            self.functions[source] = observed(function, self.observer) if self.observer else function
        return self.functions[source]


def _bind(owner: Any, name: str, builtin: Any, builder: Any, scope: Any) -> None:
    """Give a builtin of Triton's language the interpreter's semantics.

    Triton's own form copies the arguments at each call, and checks that it has semantics.
    """
    del builder
    only_checks = getattr(builtin, "__code__", None) is CHECK
    function, semantics = builtin.__wrapped__ if only_checks else builtin, interpreter.interpreter_semantic

    def bound(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantics
        return function(*args, **kwargs)

    scope.set_attr(owner, name, bound)


def _method(function: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs)


def _is_constexpr(parameter: inspect.Parameter) -> bool:
    """Return whether the annotation is constexpr.

    It is the class, or its name under postponed annotations.
    """
    return "constexpr" in str(parameter.annotation)


def _is_constant(kernel: Any, parameter: inspect.Parameter, value: object) -> bool:
    """Return whether the compiler knows the argument, as it does an integer of 1."""
    declared = {each.name: each for each in getattr(kernel, "params", ())}.get(parameter.name)
    specialised = declared is not None and not declared.do_not_specialize and not declared.annotation_type
    return _is_constexpr(parameter) or (specialised and type(value) is int and value == 1)


def _constant(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _outside_error(kernel: Any, error: OutsideStorageError) -> UsageError:
    """Return the error for an access outside its storage, with the kernel's line."""
    line = failing_line(error) or "?"
    return UsageError(
        f"{kernel.fn.__name__}, line {line.rpartition(':')[2]} {error.accesses}",
        f"{line}, program {error.program} of the grid: mask the access, or allocate what it touches.",
    )


def _endless_loop_error(kernel: Any, program: tuple[int, int, int], error: EndlessLoopError) -> UsageError:
    """Return the error for a loop that waits for a program that has not run yet."""
    line = failing_line(error) or "?"
    return UsageError(
        f"{kernel.fn.__name__}, line {line.rpartition(':')[2]}: program {program} waits in a loop for a later program",
        f"{line}: nothing that the loop reads changes any more. A trace runs one program after the other; derive the kernel, "
        "or measure it on a GPU.",
    )


def _refuse_gluon(kernel: Any) -> None:
    if getattr(kernel, "is_gluon", bool)():
        raise UsageError(
            f"{kernel.fn.__name__} is a Gluon kernel, which Triton's interpreter cannot run", "Use measure for it, on a GPU."
        )


@contextmanager
def _without_warnings() -> Generator[None]:
    """Silence numpy's warnings and keep torch's modes out of kernels.

    Masked lanes overflow and divide by zero.
    """
    disable_torch_function: Any = torch._C.DisableTorchFunction  # pyright: ignore[reportPrivateUsage]
    with np.errstate(all="ignore"), warnings.catch_warnings(), disable_torch_function(), _no_modes():
        warnings.simplefilter("ignore")
        yield
