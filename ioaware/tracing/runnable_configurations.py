"""Check that a configuration of an autotuned kernel runs on the GPU.

Triton's autotuner passes over one that does not compile, or that needs more shared memory than a program has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.compilation.launch_limits import launch_failure
from ioaware.compilation.triton_ir import compile_errors
from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import ConfigurationError


class Configurations:
    """What the compiler says about the configurations of a trace, each compiled once."""

    def __init__(self, gpu: GPUTarget) -> None:
        self._gpu = gpu
        self._failures: dict[tuple[Any, ...], str | None] = {}

    def check(self, kernel: Any, values: Mapping[Any, Any], compiled: Callable[[], Any]) -> None:
        """Raise `ConfigurationError` where the kernel does not run with these arguments.

        `compiled` returns Triton's compiled kernel.
        """
        key = (kernel, *((name, _kind(value)) for name, value in values.items()))
        if key not in self._failures:
            self._failures[key] = _failure(kernel, compiled, self._gpu)
        if reason := self._failures[key]:
            raise ConfigurationError(reason)


def _kind(value: Any) -> object:
    """Return what decides the machine code: a tensor's type, or any other value."""
    if hasattr(value, "block_shape"):
        return str(value.base.dtype), *value.block_shape
    return str(value.dtype) if hasattr(value, "data_ptr") else repr(value)


def _failure(kernel: Any, compiled: Callable[[], Any], gpu: GPUTarget) -> str | None:
    try:
        with compile_errors(kernel.fn.__name__, kernel.fn.__code__.co_filename, gpu):
            code = compiled()
    except UsageError as error:
        return error.what
    return launch_failure((), code.metadata.shared, gpu)
