"""Return value of a launch under capture: Triton's compiled kernel.

It is compiled when host code first reads an attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.triton_ir import compiled
from ioaware.errors import UsageError

Launch = Callable[[Any, tuple[Any, ...], Any, dict[str, Any]], Any]
LEADING_ARGUMENTS = 9
"""Arguments of `CompiledKernel.run` before those of the kernel.

They are the grid, stream, function, metadata and hooks.
"""
_active: list[Launch] = []
"""Active interceptors, the innermost last.

Host code may keep a kernel from an earlier run.
"""


class LaunchedKernel:
    """A launched or warmed-up kernel.

    It launches again by `kernel[grid](...)`, and has `n_regs`, `metadata`, `asm` and the others.

    Its constexprs and options are those it was compiled with, whatever a later launch passes for them.
    """

    def __init__(
        self, kernel: Any, arguments: Mapping[str, Any], options: Mapping[str, Any], compiled: Callable[[], Any]
    ) -> None:
        """Keep what a later launch repeats; `compiled` returns Triton's compiled kernel."""
        self._kernel = kernel
        self._arguments = arguments
        self._options = options
        self._compile = compiled
        self._compiled: Any = None

    @classmethod
    def of(cls, launch: CapturedLaunch, given: Mapping[str, int], gpu: GPUTarget) -> LaunchedKernel:
        """Return the kernel of a captured launch, compiled for `gpu`.

        It is compiled at the `given` parameters.
        """
        return cls(launch.kernel, launch.arguments, launch.options, lambda: compiled(launch, given, gpu))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._compiled is None:
            self._compiled = self._compile()
            self._compiled._init_handles()
        return getattr(self._compiled, name)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **_: self._again(grid, args)

    @property
    def run(self) -> Callable[..., None]:
        """Launch as the driver's launcher.

        Grid, stream, function, metadata and hooks come before the kernel's arguments.
        """
        return lambda *args, **_: self._again(args[:3], args[LEADING_ARGUMENTS:])

    def _again(self, grid: Any, args: tuple[Any, ...]) -> None:
        name, parameters = self._kernel.fn.__name__, self._kernel.params
        constants = [parameter.name for parameter in parameters if parameter.is_constexpr]
        names = [parameter.name for parameter in parameters]
        if len(args) < len(names):  # constexprs left out
            names = [each for each in names if each not in constants]
        if len(args) != len(names):
            raise UsageError(
                f"{name} takes {len(names)} arguments, and a compiled kernel was given {len(args)}", f"Give {', '.join(names)}."
            )
        for each, value in zip(names, args, strict=True):
            if each not in constants and self._is_one(each) and type(value) is int and value != 1:
                raise UsageError(
                    f"{name} was compiled for {each} = 1 and is launched with {each} = {value}",
                    "Compile it for this value: call the kernel itself.",
                )
        given = dict(zip(names, args, strict=True)) | {each: self._arguments[each] for each in constants}
        _active[-1](self._kernel, (), grid, given | dict(self._options))

    def _is_one(self, name: str) -> bool:
        """Return whether an argument was the integer 1.

        Triton compiles a separate kernel for it.
        """
        value = self._arguments[name]
        return not isinstance(value, (bool, float)) and getattr(value, "is_Integer", type(value) is int) and value == 1


def activate(launch: Launch) -> None:
    """Route later launches of stored kernels to this interceptor."""
    _active.append(launch)


def deactivate() -> None:
    """Route later launches to the previous interceptor."""
    _active.pop()
