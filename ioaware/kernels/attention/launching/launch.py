"""Launch kernels on a tensor's device, and translate Triton's errors."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from ioaware.errors import MachineError, UsageError
from ioaware.machine.occupancy import programs_per_sm

HOPPER_SHARED_BYTES = 227 * 1024
HOPPER_PROCESSORS = 132
HOPPER_SM_SHARED_BYTES, HOPPER_REGISTERS = 228 * 1024, 64 * 1024
"""Shared memory in bytes, and registers of 32 bits, of one SM."""


def shared_memory_bytes(device: torch.device) -> int:
    """Return the shared memory of one program on this GPU, in bytes.

    Hopper's where there is no GPU.
    """
    return _property(device, "shared_memory_per_block_optin", HOPPER_SHARED_BYTES)


def processors(device: torch.device) -> int:
    """Return the number of SMs of this GPU; an H200's where there is no GPU."""
    return _property(device, "multi_processor_count", HOPPER_PROCESSORS)


def resident_programs(kernel: Any, arguments: Sequence[Any], options: Mapping[str, Any], device: torch.device) -> int:
    """Return how many programs of a kernel run at once on this GPU.

    Registers, shared memory and warps of the compiled kernel limit them.
    """
    compiled = kernel.warmup(*arguments, grid=(1,), **options)
    compiled._init_handles()  # registers are known once the driver has loaded the code
    per_sm, _ = programs_per_sm(
        warps=compiled.metadata.num_warps,
        registers=compiled.n_regs,
        shared_bytes=compiled.metadata.shared,
        sm_registers=_property(device, "regs_per_multiprocessor", HOPPER_REGISTERS),
        sm_shared_bytes=_property(device, "shared_memory_per_multiprocessor", HOPPER_SM_SHARED_BYTES),
    )
    return per_sm * processors(device)


def _property(device: torch.device, name: str, hopper: int) -> int:
    """Return a property of this GPU; Hopper's where there is no GPU."""
    if device.type == "cuda" and torch.cuda.is_available():
        cuda: Any = torch.cuda  # its properties have no types
        return int(getattr(cuda.get_device_properties(device), name))
    return hopper


@contextmanager
def launching(kernel: str, device: torch.device) -> Generator[None]:
    """Launch on `device`.

    Raises UsageError for tiles that do not fit and MachineError where there is no GPU.
    """
    from triton.runtime.errors import OutOfResources

    try:
        with torch.cuda.device(device) if device.type == "cuda" and torch.cuda.is_available() else nullcontext():
            yield
    except OutOfResources as error:
        raise UsageError(
            f"{kernel}: its tiles do not fit this GPU ({error.name}: {error.required} needed, {error.limit} available)",
            "Take a smaller block_m or block_n.",
        ) from error
    except (RuntimeError, ValueError) as error:
        if "0 active drivers" in str(error) or "cpu tensor" in str(error):
            raise MachineError(
                f"{kernel}: Triton compiles for a GPU and the tensors are on {device}",
                "Put them on a CUDA device; without one, trace runs the kernel in Triton's interpreter.",
            ) from error
        raise
