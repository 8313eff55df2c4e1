"""Find out why a kernel does not run on the GPU.

The interpreter runs it all the same.

Triton's autotuner passes over a configuration that does not compile, or that needs more shared memory than a program has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.compilation.launch_limits import launch_failure
from ioaware.compilation.shared_allocation import shared_bytes
from ioaware.compilation.triton_ir import backend_of, compile_errors, fresh_ir, source_at
from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import ConfigurationError


class Configurations:
    """What the compiler says about the kernels of a trace.

    Each is compiled once for each configuration.
    """

    def __init__(self, gpu: GPUTarget) -> None:
        self._gpu = gpu
        self._failures: dict[tuple[Any, ...], str | None] = {}

    def check(self, kernel: Any, values: Mapping[Any, Any], compiled: Callable[[], Any]) -> None:
        """Raise `ConfigurationError` where the kernel does not run with these arguments.

        `compiled` returns Triton's compiled kernel.
        """
        key = (kernel, *((name, _kind(value)) for name, value in values.items()))
        if key not in self._failures:
            self._failures[key] = _failure(kernel, lambda: compiled().metadata.shared, self._gpu)
        if reason := self._failures[key]:
            raise ConfigurationError(reason)

    def failure(self, kernel: Any, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
        """Return why the GPU does not run the kernel at this launch, or None."""
        try:
            with compile_errors(kernel.fn.__name__, kernel.fn.__code__.co_filename, self._gpu):
                source, parsed = source_at(kernel, arguments, options, backend_of(self._gpu))
                key = source.hash(), str(parsed)
        except UsageError as error:
            return error.what
        if key not in self._failures:
            self._failures[key] = _failure(kernel, lambda: _shared_bytes(source, parsed, self._gpu), self._gpu)
        return self._failures[key]


def _kind(value: Any) -> object:
    """Return what decides the machine code: a tensor's type, or any other value."""
    if hasattr(value, "block_shape"):
        return str(value.base.dtype), *value.block_shape
    return str(value.dtype) if hasattr(value, "data_ptr") else repr(value)


def _failure(kernel: Any, shared: Callable[[], int | None], gpu: GPUTarget) -> str | None:
    """Return why the kernel does not run, or None.

    `shared` compiles it and returns its bytes of shared memory.
    """
    try:
        with compile_errors(kernel.fn.__name__, kernel.fn.__code__.co_filename, gpu):
            return launch_failure((), shared(), gpu)
    except UsageError as error:
        return error.what


def _shared_bytes(source: Any, options: Any, gpu: GPUTarget) -> int | None:
    """Return the shared memory of a kernel that is compiled to TTGIR.

    Why no further: machine code takes longer than a short trace, and adds no failure of the kernel's own code.
    """
    backend: Any = backend_of(gpu)
    made, _context = fresh_ir(source, options, backend, gpu)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    metadata: dict[str, Any] = {"target": gpu, **options.__dict__}
    for name in ("ttir", "ttgir"):
        made = stages[name](made, metadata)
    return shared_bytes(str(made), gpu)
