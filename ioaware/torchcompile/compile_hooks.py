"""Make torch.compile generate code for the fake GPU while host code runs on it.

Dynamo traces host code as ever, on tensors of the CPU. While it does, the modes that make the fake GPU and record operators
are set aside: what the compiler computes is no work of the function. The traced graph moves to the GPU before the compiler's
passes see it. What answers for the GPU there has the properties of the fake one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.overrides as _overrides
from torch._library.triton import set_wrap_triton_enabled
from torch.utils import _python_dispatch

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.fakegpu.cuda_stand_in import StandIn
from ioaware.fakegpu.fake_cuda import COMPILER
from ioaware.fakegpu.generated_code import generated_code_runs, own_directory
from ioaware.targets.loading import first_line
from ioaware.torchcompile.compiler_patches import compile_for_the_gpu
from ioaware.torchcompile.tracing_patches import Phase, let_the_gpu_answer

_torch: Any = torch
native: Any = _torch._C
overrides: Any = _overrides
without_dispatch_modes: Any = _python_dispatch._disable_current_modes  # pyright: ignore[reportPrivateUsage]
OWN_PACKAGE = tuple(
    str(Path(__file__).parents[1] / name) for name in ("capture", "fakegpu", "symints", "tracing", "torchcompile")
)
DYNAMO_SETTINGS = {
    "recompile_limit": 2**16,  # torch's own limit, after which a function runs uncompiled, is for the calls of one process
    "accumulated_recompile_limit": 2**16,
    "suppress_errors": False,
    "automatic_dynamic_local_pgo": False,
}


@contextmanager
def torch_compile_on_fake_gpu(stand_in: StandIn, *, eager: bool = False) -> Generator[None]:
    """Compile functions called inside the block for the fake GPU.

    With `eager` run them uncompiled.

    What was compiled stays for later blocks, until `compiled_code_forgotten` ends.
    """
    hooks = _Hooks(stand_in, eager)
    with ExitStack() as stack, Patches() as patches, generated_code_runs():
        if COMPILER in sys.modules:
            hooks.install(patches, stack)
        else:
            plain: Callable[[str], None] = native._log_api_usage_once

            def log_and_hook(event: str) -> None:
                plain(event)
                if event == "torch.compile":  # which calls this first, whatever name the user has given it
                    hooks.install(patches, stack)

            patches.set(native, "_log_api_usage_once", log_and_hook)
        yield


@contextmanager
def compiled_code_forgotten() -> Generator[None]:
    """Drop what dynamo has compiled before and inside the block.

    It belongs to one GPU, real or fake.
    """
    _forget()
    try:
        yield
    finally:
        _forget()


def _forget() -> None:
    if COMPILER in sys.modules:
        _torch._dynamo.reset()


def _unmarked(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class _Hooks:
    """What is replaced in dynamo, and in the compiler while it works."""

    def __init__(self, stand_in: StandIn, eager: bool) -> None:
        self._stand_in = stand_in
        self._eager = eager
        self._installed = False
        self._phase = Phase()
        self._is_compiling = False

    def install(self, patches: Patches, stack: ExitStack) -> None:
        """Replace dynamo's entry, once."""
        if self._installed:
            return
        self._installed = True
        with _no_warnings():
            self._install(patches, stack)

    def _install(self, patches: Patches, stack: ExitStack) -> None:
        from torch._dynamo import config, convert_frame, guards
        from torch._dynamo.exc import BackendCompilerFailed

        frames: Any = convert_frame
        guard_builder: Any = guards.GuardBuilder
        settings: Any = config
        mark: Any = getattr(guards, "skip_guard_check_spec", _unmarked)  # torch 2.11 has no such check

        def convert(wrapper: Any, *args: Any) -> Any:
            if self._eager or _is_below_own_code(args[0]):
                frames.input_codes.add(args[0].f_code)  # so that `_forget` finds what stays uncompiled
                return frames.ConvertFrameReturn()
            try:
                with self._compiling():
                    return plain(wrapper, *args)
            except BackendCompilerFailed as error:
                raise _compile_error(error) from error

        plain: Callable[..., Any] = patches.set(frames.CatchErrorsWrapper, "__call__", convert)
        patches.set(guard_builder, "TORCH_FUNCTION_STATE", mark(_no_guard))
        stack.enter_context(settings.patch(DYNAMO_SETTINGS))

    @contextmanager
    def _compiling(self) -> Generator[None]:
        """Set the modes aside, and let the fake GPU answer the compiler.

        A block within the block changes nothing.
        """
        if self._is_compiling:
            yield
            return
        with ExitStack() as stack, Patches() as patches:
            functions = [overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())]
            stack.callback(lambda: [overrides._push_mode(mode) for mode in reversed(functions)])
            stack.enter_context(without_dispatch_modes())
            stack.enter_context(_no_warnings())
            stack.enter_context(own_directory())
            stack.enter_context(set_wrap_triton_enabled(True))  # the fake GPU launches such kernels directly
            let_the_gpu_answer(patches, self._stand_in, self._phase)
            compile_for_the_gpu(patches, stack, self._stand_in, self._phase, self._compiling)
            stack.callback(setattr, self, "_is_compiling", False)
            self._is_compiling = True
            with self._phase.set_to(True):
                yield


@contextmanager
def _no_warnings() -> Generator[None]:
    """Silence the compiler.

    It warns of its own code and of settings that are fast on the GPU.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _compile_error(error: Any) -> UsageError:
    """Return why the compiler failed, as a sentence.

    It is a refusal from here, or what the compiler raised.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UsageError):
            return cause
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    return UsageError(
        f"torch.compile fails without a GPU: {first_line(error.inner_exception)}",
        "Derive the function as it runs without the compiler: --eager.",
    )


def _is_below_own_code(frame: Any) -> bool:
    """Return whether a function that dynamo meets is called from the fake GPU.

    Otherwise the user's compiled function calls it.
    """
    while frame is not None and Path(frame.f_code.co_filename).name != "eval_frame.py":
        if frame.f_code.co_filename.startswith(OWN_PACKAGE):
            return True
        frame = frame.f_back
    return False


def _no_guard(builder: Any, guard: Any) -> None:  # noqa: ARG001
    """Guard nothing.

    Dynamo would compare the modes in force with those that are set aside while it compiles.
    """
    builder.check_fn_manager.torch_function_mode_stack_check_fn = bool
