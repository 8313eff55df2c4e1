"""Repeat a launch through Triton's launcher directly.

The search for the compiled kernel is left out.

`kernel[grid](...)` inspects the type of every argument, every time, to find the compiled kernel. A caller whose own key fixes
those types (shapes, strides, dtypes, device, constants) keeps a `Launch` per key and skips that search. Triton 3.6 to 3.9 pass
arguments to the launcher in the same way. With another Triton, or while a hook, profiler or interceptor observes launches,
`Launch` takes the ordinary path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
import triton
from triton.runtime import driver, jit

from ioaware.kernels.attention.launching.launch import launching

LAUNCHERS_KNOWN = ((3, 6), (3, 9))
"""First and last Triton version whose launchers take these arguments.

They are `run(*grid, stream, function, metadata, three hooks, *arguments)`.
"""


class Launch:
    """Launches of one compiled kernel on one device.

    They differ in tensors of the same dtype and alignment only.
    """

    __slots__ = ("_compiled", "_constants", "_device", "_grid", "_kernel", "_name", "_options", "_values")

    def __init__(
        self, name: str, kernel: Any, grid: tuple[int, ...], device: torch.device, constants: Mapping[str, Any], **options: Any
    ) -> None:
        """Prepare launches.

        `constants` are the kernel's last parameters, all compile-time, and `name` stands in errors.

        a * b + c is one instruction unless the options say otherwise: Triton 3.9 warns that its default will change, which
        would cost the softmax another instruction per element.
        """
        self._name, self._kernel, self._device = name, kernel, device
        self._grid = (*grid, 1, 1, 1)[:3]
        self._constants, self._options = constants, {"enable_fp_fusion": True, **options}
        self._values = tuple(constants[name] for name in kernel.arg_names if name in constants)
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> None:
        """Launch on the current stream of the device. Raises what `launching` raises."""
        compiled = self._compiled
        if compiled is None or is_observed(self._kernel):
            self._first(arguments)
        elif torch.cuda.current_device() == self._device.index:
            self._again(compiled, arguments)
        else:
            with torch.cuda.device(self._device):
                self._again(compiled, arguments)

    def _first(self, arguments: tuple[Any, ...]) -> None:
        with launching(self._name, self._device):
            compiled = self._kernel[self._grid](*arguments, **self._constants, **self._options)
        if LAUNCHER_IS_KNOWN and isinstance(compiled, triton.compiler.CompiledKernel):  # an interceptor returns another type
            self._compiled = compiled

    def _again(self, compiled: Any, arguments: tuple[Any, ...]) -> None:
        stream = cast("Any", driver.active).get_current_stream(self._device.index)
        compiled.run(
            *self._grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *arguments, *self._values
        )  # fmt: skip


def is_observed(kernel: Any) -> bool:
    """Return whether a hook, profiler or interceptor observes launches.

    One that changes how kernels are compiled counts, too.
    """
    runtime: Any = triton.knobs.runtime
    return (
        getattr(type(kernel).run, "__globals__", None) is not TRITON_GLOBALS  # replaced by an interceptor
        or bool(kernel.pre_run_hooks)
        or _hooked(runtime.launch_enter_hook)
        or _hooked(runtime.launch_exit_hook)
        or runtime.debug
        or runtime.add_stages_inspection_hook is not None
        or triton.knobs.compilation.instrumentation_mode != ""
    )


def _hooked(hook: Any) -> bool:
    """Return whether a hook is set; a chain of hooks has a list of them."""
    return bool(getattr(hook, "calls", hook))


def same_view(descriptor: Any, tensor: torch.Tensor) -> Any:
    """Return the TMA descriptor of a tensor like the descriptor's own.

    Shape, strides, dtype and alignment are the same.

    These are not checked again: the checks cost more than a launch.
    """
    view: Any = object.__new__(type(descriptor))
    vars(view).update(vars(descriptor), base=tensor)
    return view


def _launcher_is_known() -> bool:
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return LAUNCHERS_KNOWN[0] <= version <= LAUNCHERS_KNOWN[1]


LAUNCHER_IS_KNOWN = _launcher_is_known()
TRITON_GLOBALS = vars(jit)
