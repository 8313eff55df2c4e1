"""Launch kernels on a tensor's device, and translate Triton's errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from ioaware.errors import MachineError, UsageError

HOPPER_SHARED_BYTES = 227 * 1024
HOPPER_PROCESSORS = 132


def shared_memory_bytes(device: torch.device) -> int:
    """Return the shared memory of one program on this GPU, in bytes.

    Hopper's where there is no GPU.
    """
    if device.type == "cuda" and torch.cuda.is_available():
        cuda: Any = torch.cuda  # its properties have no types
        return int(cuda.get_device_properties(device).shared_memory_per_block_optin)
    return HOPPER_SHARED_BYTES


def processors(device: torch.device) -> int:
    """Return the number of SMs of this GPU; an H200's where there is no GPU."""
    if device.type == "cuda" and torch.cuda.is_available():
        cuda: Any = torch.cuda
        return int(cuda.get_device_properties(device).multi_processor_count)
    return HOPPER_PROCESSORS


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
