"""Return value of a launch under capture: Triton's compiled kernel, compiled when host code first reads an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.triton_ir import compiled
from ioaware.errors import UsageError

Launch = Callable[[Any, tuple[Any, ...], Any, dict[str, Any]], Any]
LEADING_ARGUMENTS = 9
"""Arguments of `CompiledKernel.run` before those of the kernel: the grid, stream, function, metadata and hooks."""
_active: list[Launch] = []
"""Active interceptors, the innermost last. Host code may keep a kernel from an earlier run."""


class LaunchedKernel:
    """A launched or warmed-up kernel: launches again by `kernel[grid](...)`, has `n_regs`, `metadata`, `asm` and the others.

    Its constexprs and options are those it was compiled with, whatever a later launch passes for them.
    """

    def __init__(self, launch: CapturedLaunch, given: Mapping[str, int], gpu: GPUTarget) -> None:
        self._launch = launch
        self._given = given
        self._gpu = gpu
        self._compiled: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._compiled is None:
            self._compiled = compiled(self._launch, self._given, self._gpu)
            self._compiled._init_handles()
        return getattr(self._compiled, name)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **_: self._again(grid, args)

    @property
    def run(self) -> Callable[..., None]:
        """Launch as the driver's launcher: grid, stream, function, metadata and hooks before the kernel's arguments."""
        return lambda *args, **_: self._again(args[:3], args[LEADING_ARGUMENTS:])

    def _again(self, grid: Any, args: tuple[Any, ...]) -> None:
        kernel = self._launch.kernel
        constants = [param.name for param in kernel.params if param.is_constexpr]
        names = [param.name for param in kernel.params]
        if len(args) < len(names):  # constexprs left out
            names = [name for name in names if name not in constants]
        if len(args) != len(names):
            raise UsageError(f"{self._launch.name} takes {len(names)} arguments, and a compiled kernel was given {len(args)}")
        for name, value in zip(names, args, strict=True):
            if name not in constants and self._launch.arguments[name] == 1 and type(value) is int and value != 1:
                raise UsageError(f"{self._launch.name} was compiled for {name} = 1 and is launched with {name} = {value}")
        given = dict(zip(names, args, strict=True)) | {name: self._launch.arguments[name] for name in constants}
        _active[-1](kernel, (), grid, given | dict(self._launch.options))


def activate(launch: Launch) -> None:
    """Route later launches of stored kernels to this interceptor."""
    _active.append(launch)


def deactivate() -> None:
    """Route later launches to the previous interceptor."""
    _active.pop()
