"""The GPU operations of a worker, through torch.

The only module here that needs a GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from ioaware.measurement.nvml import no_gpu

FLUSH_FACTOR = 2
LONGEST_HOLD_S = 0.005
SLOW_CALL_S = 0.1


class Cuda:
    """CUDA device 0 of this process."""

    name = "cuda"

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch
        if not torch.cuda.is_available():
            raise no_gpu("torch was built without CUDA" if torch.version.cuda is None else "torch finds none")
        self.torch.zeros(1, device=self.name)  # creates the context, so that NVML lists this process from here on
        self.synchronize()
        self.properties: Any = self.torch.cuda.get_device_properties(0)
        self._flush: Any = None

    @property
    def uuid(self) -> str | None:
        uuid = getattr(self.properties, "uuid", None)
        return None if uuid is None else str(uuid)

    def describe(self) -> dict[str, Any]:
        """Return the device's properties and the CUDA version.

        They are for the record's environment.
        """
        properties = self.properties
        return {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "sm_count": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "gpu_memory_bytes": properties.total_memory,
            "cuda": self.torch.version.cuda,
        }

    def seed(self, seed: int) -> None:
        self.torch.manual_seed(seed)

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def empty_cache(self) -> None:
        """Free cached memory, the flush buffer included."""
        self._flush = None
        self.torch.cuda.empty_cache()

    def poison(self, size_bytes: int) -> None:
        """Fill free memory with NaN: all bits set is a NaN in every float type.

        Why: an output that the kernel leaves unwritten must not hold the previous run's values.
        """
        self.empty_cache()
        while size_bytes:
            try:
                self.torch.empty(size_bytes, dtype=self.torch.uint8, device=self.name).fill_(255)
                break
            except self.torch.OutOfMemoryError:
                size_bytes //= 2
        small = [self.torch.empty(2**19, dtype=self.torch.uint8, device=self.name) for _ in range(16)]  # has its own pool
        for block in small:
            block.fill_(255)
        self.synchronize()

    def peak_requested_bytes(self, run: Callable[[], object]) -> tuple[int | None, object]:
        """Run once and return the peak of bytes allocated beyond those before.

        The output comes with it.

        The peak is None under an allocator that does not keep these statistics.
        """
        self.synchronize()
        before = self.torch.cuda.memory_stats().get("requested_bytes.all.current")
        self.torch.cuda.reset_peak_memory_stats()
        output = run()
        self.synchronize()
        peak = self.torch.cuda.memory_stats().get("requested_bytes.all.peak")
        return (None if peak is None or before is None else int(peak) - int(before)), output

    def host_seconds(self, run: Callable[[], object]) -> float:
        """Return how many seconds the host takes to queue the work.

        It is the minimum of up to three calls.
        """
        best = math.inf
        for _ in range(3):
            self.synchronize()
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
            self.synchronize()
            if time.perf_counter() - start > SLOW_CALL_S:
                break
        return best

    def timer(self, run: Callable[[], object], hold_s: float, clock_mhz: int | None) -> Callable[[], float]:
        """Return a function that times the work once with a flushed L2.

        It returns the GPU time in nanoseconds.

        The GPU sleeps for about `hold_s` before the first event. Meanwhile the host queues all launches, so that the events
        time the kernels and not the gaps between launches.
        """
        cuda = self.torch.cuda
        self._flush = self.torch.empty(FLUSH_FACTOR * self.properties.L2_cache_size, dtype=self.torch.uint8, device=self.name)
        cycles = int(min(1.5 * hold_s, LONGEST_HOLD_S) * (clock_mhz or 1000) * 1e6)

        def once() -> float:
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            self._flush.zero_()
            cuda._sleep(cycles)
            start.record()
            run()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e6

        return once

    def run_back_to_back(self, run: Callable[[], object], seconds: float, one_ns: float) -> tuple[int, float]:
        """Run the work for that many seconds.

        Return the number of runs and the elapsed seconds.
        """
        batch = max(1, min(1000, int(0.05e9 / max(one_ns, 1.0))))
        count = 0
        self.synchronize()
        start = time.perf_counter()
        while True:
            for _ in range(batch):
                run()
            self.synchronize()
            count += batch
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return count, elapsed

    def profile(self, run: Callable[[], object]) -> object:
        """Run the work once between cudaProfilerStart and cudaProfilerStop."""
        runtime = self.torch.cuda.cudart()
        self.synchronize()
        runtime.cudaProfilerStart()
        output = run()
        self.synchronize()
        runtime.cudaProfilerStop()
        return output

    def push_range(self, name: str) -> None:
        self.torch.cuda.nvtx.range_push(name)

    def pop_range(self) -> None:
        self.torch.cuda.nvtx.range_pop()
