"""Device 0 for benchmarks: cold calls by CUDA events, with NVML beside them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from ioaware.errors import MachineError
from ioaware.measurement.cuda_device import Cuda
from ioaware.measurement.nvml import Gpu, Limits, Snapshot, load_nvml, open_gpu

DRIVER = "libcuda.so.1"
SUCCESS, NOT_SUPPORTED = 0, 801
"""CUDA_SUCCESS, and CUDA_ERROR_NOT_SUPPORTED.

The latter is from a GPU that has no persisting lines.
"""
HOLD_LEAST_S, HOLD_FACTOR = 5e-4, 4
"""How long the GPU waits for the host to queue a call.

Why so long: NVML is read between rounds, and the host is several times slower after it than at its best.
"""


class CudaBenchmarkDevice:
    """The GPU of this process. Raises `MachineError` where there is none."""

    def __init__(self) -> None:
        import torch

        self._gpu: Gpu = open_gpu(load_nvml())
        before = None if torch.cuda.is_initialized() else self._gpu.processes()
        self._cuda = Cuda()
        self.own_processes = own_processes(before, self._gpu.processes(), os.getpid())
        self.limits: Limits = self._gpu.limits
        self.uuid: str | None = self._cuda.uuid
        self.cuda_version: str | None = torch.version.cuda

    def snapshot(self) -> Snapshot:
        """Take an NVML snapshot."""
        return self._gpu.snapshot()

    def timer(self, run: Callable[[], object]) -> Callable[[], float]:
        """Return a function that times one call after resetting and flushing the L2.

        It resets and flushes the L2, runs the call once and returns its nanoseconds.
        """
        run()  # compiles, tunes and allocates
        hold_s = HOLD_LEAST_S + HOLD_FACTOR * self._cuda.host_seconds(run)
        once = self._cuda.timer(run, hold_s, self.limits.max_sm_clock_mhz)

        def cold() -> float:
            reset_persisting_l2()
            return once()

        return cold


@cache
def opened_device() -> CudaBenchmarkDevice:
    """Return the GPU of this process, opened once.

    Why: which of NVML's processes is ours shows only when the first context is created.
    """
    return CudaBenchmarkDevice()


def own_processes(before: tuple[int, ...] | None, now: tuple[int, ...], pid: int) -> frozenset[int]:
    """Return the ids that NVML has for this process.

    `before` are the processes before the first CUDA context, None where it was created unseen. NVML may count in another
    namespace of process ids: then a process that is alone on the GPU is ours, and of several none is.
    """
    if before is not None:
        return frozenset(now) - frozenset(before)
    if pid in now:
        return frozenset({pid})
    return frozenset(now) if len(now) == 1 else frozenset()


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
