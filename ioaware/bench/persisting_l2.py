"""Reset persisting lines of the L2, which no write to other memory evicts."""

from __future__ import annotations

import ctypes
from typing import Any

from ioaware.errors import MachineError

DRIVER = "libcuda.so.1"
SUCCESS, NOT_SUPPORTED = 0, 801
"""CUDA_SUCCESS, and CUDA_ERROR_NOT_SUPPORTED.

The latter is from a GPU that has no persisting lines.
"""


def reset_persisting_l2(driver: Any = None) -> None:
    """Make the current context's persisting lines normal ones.

    cudaCtxResetPersistingL2Cache does the same.

    `driver` is CUDA's driver library. Raises `MachineError` where that fails, since a kernel could then find its inputs there.
    """
    try:
        code = (driver or ctypes.CDLL(DRIVER)).cuCtxResetPersistingL2Cache()
    except (OSError, AttributeError) as error:
        raise MachineError(
            f"persisting L2 lines cannot be reset ({error})", "Update the NVIDIA driver to CUDA 11 or later."
        ) from error
    if code not in (SUCCESS, NOT_SUPPORTED):
        raise MachineError(f"persisting L2 lines cannot be reset (CUDA error {code})", "Run the benchmark in a new process.")
