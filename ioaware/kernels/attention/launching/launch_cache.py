"""A launch that has been made once is made again straight through Triton's launcher, while nobody watches launches.

`kernel[grid](...)` reads the type of every argument to find the compiled kernel, every time. A caller whose own key fixes
those types (shapes, strides, dtypes, device, constants) keeps a `Launch` for each key and passes over that search.
Triton 3.6 to 3.9 hand a compiled kernel's arguments to its launcher in the same way, which `Launch` repeats; with any other
Triton, and whenever a hook, a profiler or an interceptor waits for launches, it takes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
import triton
from triton.runtime import driver, jit

from ioaware.kernels.attention.launching.launch import launching

LAUNCHERS_KNOWN = ((3, 6), (3, 9))
"""The first and the last Triton whose launchers take `run(*grid, stream, function, metadata, three of hooks, *arguments)`."""


class Launch:
    """Launches of one compiled kernel on one device, which differ in tensors of the same dtype and alignment only."""

    __slots__ = ("_compiled", "_constants", "_device", "_grid", "_kernel", "_name", "_options", "_values")

    def __init__(
        self, name: str, kernel: Any, grid: tuple[int, ...], device: torch.device, constants: Mapping[str, Any], **options: Any
    ) -> None:
        """`constants` are the kernel's last parameters, all compile-time; `name` is what errors call the kernel.

        a * b + c is one instruction unless the options say otherwise: Triton 3.9 warns that its default will change, which
        would cost the softmax another instruction an element.
        """
        self._name, self._kernel, self._device = name, kernel, device
        self._grid = (*grid, 1, 1, 1)[:3]
        self._constants, self._options = constants, {"enable_fp_fusion": True, **options}
        self._values = tuple(constants[name] for name in kernel.arg_names if name in constants)
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> None:
        """Launches on the current stream of the device. Raises what `launching` raises."""
        compiled = self._compiled
        if compiled is None or watched(self._kernel):
            self._first(arguments)
        elif torch.cuda.current_device() == self._device.index:
            self._again(compiled, arguments)
        else:
            with torch.cuda.device(self._device):
                self._again(compiled, arguments)

    def _first(self, arguments: tuple[Any, ...]) -> None:
        with launching(self._name, self._device):
            compiled = self._kernel[self._grid](*arguments, **self._constants, **self._options)
        if LAUNCHER_IS_KNOWN and isinstance(compiled, triton.compiler.CompiledKernel):  # an interceptor returns something else
            self._compiled = compiled

    def _again(self, compiled: Any, arguments: tuple[Any, ...]) -> None:
        stream = cast("Any", driver.active).get_current_stream(self._device.index)
        compiled.run(
            *self._grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *arguments, *self._values
        )  # fmt: skip


def watched(kernel: Any) -> bool:
    """Whether somebody waits for launches, or wants kernels compiled in another way than the one at hand."""
    runtime: Any = triton.knobs.runtime
    return (
        getattr(type(kernel).run, "__globals__", None) is not TRITONS_OWN  # replaced, as the instruments here replace it
        or bool(kernel.pre_run_hooks)
        or _hooked(runtime.launch_enter_hook)
        or _hooked(runtime.launch_exit_hook)
        or runtime.debug
        or runtime.add_stages_inspection_hook is not None
        or triton.knobs.compilation.instrumentation_mode != ""
    )


def _hooked(hook: Any) -> bool:
    """A chain of hooks has a list of them; one hook alone stands for itself."""
    return bool(getattr(hook, "calls", hook))


def same_view(descriptor: Any, tensor: torch.Tensor) -> Any:
    """The TMA descriptor of another tensor with the shape, strides, dtype and alignment of the descriptor's own, which are
    not checked again: those checks cost more than a launch."""
    view: Any = object.__new__(type(descriptor))
    vars(view).update(vars(descriptor), base=tensor)
    return view


def _launcher_is_known() -> bool:
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return LAUNCHERS_KNOWN[0] <= version <= LAUNCHERS_KNOWN[1]


LAUNCHER_IS_KNOWN = _launcher_is_known()
TRITONS_OWN = vars(jit)
