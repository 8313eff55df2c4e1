"""Run the CUDA implementation of a custom operator.

Torch would run its fake or CPU one.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import torch
from torch import overrides as _overrides

from ioaware.fakegpu.storages import OperatorMode

native: Any = torch._C  # pyright: ignore[reportPrivateUsage]
overrides: Any = _overrides
CUDA_KEYS = native.DispatchKeySet(native.DispatchKey.CUDA)
REGISTRATIONS = ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
"""Dispatch keys under which an implementation for CUDA is registered.

They stand in torch's order of precedence.
"""


class CudaImplementations(OperatorMode):
    """Run, inside the block, implementations that Python code registered for CUDA.

    Why: a custom operator launches its Triton kernels there. For fake tensors torch would call the shape function, and for CPU
    tensors the CPU implementation. Enter it last: modes entered before see the operators of the implementation.
    """

    def __enter__(self) -> Any:
        self._functions: list[Any] = overrides._get_current_function_mode_stack()
        return super().__enter__()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not has_python_cuda(func):
            return func(*args, **(kwargs or {}))
        with ExitStack() as stack:
            for mode in (*self._functions, self):  # torch leaves them while it dispatches
                stack.enter_context(mode)
            return func.redispatch(CUDA_KEYS, *args, **(kwargs or {}))


@lru_cache(maxsize=4096)
def has_python_cuda(func: Any) -> bool:
    """Return whether CUDA tensors reach an implementation registered by Python code."""
    name: str = func._schema.name + (f".{func._schema.overload_name}" if func._schema.overload_name else "")
    if name.partition("::")[0] in ("aten", "prim", "prims"):
        return False
    key = next((key for key in REGISTRATIONS if native._dispatch_has_kernel_for_dispatch_key(name, key)), None)
    lines = (line.partition(":") for line in native._dispatch_dump(name).splitlines())
    return any(where.partition("[")[0] == key and ".py:" in registered for where, _, registered in lines)
