"""Device 0 for benchmarks: cold calls by CUDA events, with NVML beside them."""

from __future__ import annotations

from collections.abc import Callable

from ioaware.bench.persisting_l2 import reset_persisting_l2
from ioaware.measurement.cuda_device import Cuda
from ioaware.measurement.nvml import Gpu, Limits, Snapshot, load_nvml, open_gpu


class CudaBenchmarkDevice:
    """The GPU of this process. Raises `MachineError` where there is none."""

    def __init__(self) -> None:
        self._gpu: Gpu = open_gpu(load_nvml())
        before = set(self._gpu.processes())
        self._cuda = Cuda()
        self.own_processes = frozenset(set(self._gpu.processes()) - before)
        self.limits: Limits = self._gpu.limits
        self.uuid: str | None = self._cuda.uuid

    def snapshot(self) -> Snapshot:
        """Take an NVML snapshot."""
        return self._gpu.snapshot()

    def timer(self, run: Callable[[], object]) -> Callable[[], float]:
        """Return a function that times one call after resetting and flushing the L2.

        It resets and flushes the L2, runs the call once and returns its nanoseconds.
        """
        run()  # compiles, tunes and allocates
        once = self._cuda.timer(run, self._cuda.host_seconds(run), self.limits.max_sm_clock_mhz)

        def cold() -> float:
            reset_persisting_l2()
            return once()

        return cold
