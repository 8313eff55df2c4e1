"""Time calls on the GPU by events, captured in CUDA graphs.

Two ceilings (matmul, copy) are candidates.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioaware.bench.interleaving import calls_in_sample
from ioaware.measurement.nvml import Gpu, Snapshot

if TYPE_CHECKING:
    from torch import Tensor

MATMUL, COPY = "matmul ceiling", "copy ceiling"
MATMUL_SIDE = 8192
COPY_BYTES = 2**29

POISONED = 8
HOST_CALLS = 10
HOST_WAIT_NS = 3e8
"""Longest wait for the GPU while measuring the host cost.

The cost is the least of up to three batches of calls.
"""

Run = Callable[[], object]
Compute = Callable[[], "tuple[Tensor, ...]"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Repeatable work: `play` runs `calls` calls.

    `captured`: in a CUDA graph. Otherwise `reason` is why not, and host time is part of the result. `check` plays once more
    into poisoned outputs and returns whether they are right. `keep` holds the tensors that the graph reads.
    """

    play: Run
    calls: int
    captured: bool
    reason: str = ""
    check: Callable[[], bool] = lambda: True
    keep: object = None


class GpuClock:
    """Time samples by CUDA events on the current stream.

    NVML snapshots are taken in between.
    """

    def __init__(self, samples: Mapping[str, Sample], gpu: Gpu) -> None:
        import torch

        self.cuda: Any = torch.cuda
        self.samples = samples
        self.gpu = gpu
        self.snapshots: list[Snapshot] = []

    def queue(self, name: str) -> Callable[[], float]:
        """Start a sample; return a function for its nanoseconds per call."""
        start, end = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
        sample = self.samples[name]
        start.record()
        sample.play()
        end.record()
        return lambda: start.elapsed_time(end) * 1e6 / sample.calls

    def snapshot(self) -> None:
        """Take an NVML snapshot."""
        self.snapshots.append(self.gpu.snapshot())

    def synchronize(self) -> None:
        """Wait for the queued samples."""
        self.cuda.synchronize()


class Device:
    """Device 0 of this process, with one side stream for preparing work.

    Graph capture requires that work is prepared on it.
    """

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch
        self.stream: Any = torch.cuda.Stream()

    def on_side_stream(self) -> AbstractContextManager[object]:
        """Run the block on the side stream."""
        self.torch.cuda.synchronize()
        return self.torch.cuda.stream(self.stream)

    def call_ns(self, run: Run) -> float:
        """Return the approximate time of a call, of work that has run before."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda.synchronize()
        start.record()
        run()
        end.record()
        self.torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e6

    def sample(self, runs: Sequence[Compute], right: Callable[[Sequence[Tensor]], bool]) -> Sample:
        """Return a sample of as many calls as SAMPLE_NS holds.

        It cycles through the runs and ends with the first.

        The runs have all run before; called inside `on_side_stream`. A graph is used only if its replay writes outputs that are
        `right` for the first run's inputs. Why: work on another stream would not be captured, and would appear to be free.
        """
        calls = calls_in_sample(self.call_ns(runs[0]))

        def every() -> tuple[Tensor, ...]:
            outputs: tuple[Tensor, ...] = ()
            for left in reversed(range(calls)):
                outputs = runs[left % len(runs)]()
            return outputs

        graph = self.torch.cuda.CUDAGraph()
        self.torch.cuda.synchronize()
        try:
            with without_gc():
                graph.capture_begin()
                try:
                    outputs = every()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            self.torch.cuda.synchronize()
            return self._uncaptured(every, calls, right, f"no CUDA graph: {_first_line(error)}")

        def check() -> bool:
            for output in outputs:
                output.fill_(float("nan"))
            graph.replay()
            return right(outputs)

        if not check():
            return self._uncaptured(every, calls, right, "no CUDA graph: its replay does not write the output")
        return Sample(graph.replay, calls, captured=True, check=check, keep=(runs, outputs))

    @staticmethod
    def _uncaptured(every: Compute, calls: int, right: Callable[[Sequence[Tensor]], bool], reason: str) -> Sample:
        """Return a sample without a graph, with a check of its outputs."""
        return Sample(every, calls, captured=False, reason=reason, check=lambda: right(every()))

    def plain_sample(self, run: Run, reason: str = "") -> Sample:
        """Return a sample without a graph."""
        calls = calls_in_sample(self.call_ns(run))

        def every() -> None:
            for _ in range(calls):
                run()

        return Sample(every, calls, captured=False, reason=reason)

    def host_us(self, run: Run) -> float:
        """Return the microseconds until a call returns with its work queued.

        They are the least of a few batches.
        """
        one = self.call_ns(run)
        calls = max(2, min(HOST_CALLS, int(HOST_WAIT_NS / 10 / max(one, 1.0))))
        best = float("inf")
        for _ in range(3):
            self.torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                run()
            best = min(best, (time.perf_counter() - start) / calls)
        self.torch.cuda.synchronize()
        return best * 1e6

    def poison(self, size_bytes: int) -> None:
        """Fill with NaN the blocks that the next allocations of this size will get.

        They are those on the current stream.
        """
        blocks = [self.torch.empty(size_bytes, dtype=self.torch.uint8, device="cuda") for _ in range(POISONED)]
        for block in blocks:
            block.fill_(255)  # all bits set is a NaN in every float type

    def lost(self) -> bool:
        """Return whether an error has destroyed the CUDA context.

        Nothing more can be measured then.
        """
        try:
            self.torch.cuda.synchronize()
        except RuntimeError:
            return True
        return False

    def clock(self, samples: Mapping[str, Sample], gpu: Gpu) -> GpuClock:
        """Return a clock for these samples."""
        return GpuClock(samples, gpu)

    def ceilings(self) -> dict[str, Sample]:
        """Return samples of a bf16 matmul of 8192^3 and of a copy of 512 MB.

        They are of random numbers.

        Neither is captured: both are long compared to a launch, and copies are slower as graph nodes.
        """
        torch = self.torch
        a, b = (torch.randn(MATMUL_SIDE, MATMUL_SIDE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        c = torch.empty_like(a)
        source = torch.randint(0, 256, (COPY_BYTES,), dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        runs: dict[str, Run] = {MATMUL: lambda: torch.mm(a, b, out=c), COPY: lambda: target.copy_(source)}
        for run in runs.values():
            run()
        return {name: self.plain_sample(run) for name, run in runs.items()}

    def inputs(self, shapes: Sequence[tuple[int, ...]], dtype: str, seed: int) -> list[Tensor]:
        """Return normal random tensors, the same for the same seed."""
        self.torch.manual_seed(seed)
        return [self.torch.randn(shape, dtype=getattr(self.torch, dtype), device="cuda") for shape in shapes]


@contextmanager
def without_gc() -> Generator[None]:
    """Disable Python's garbage collector in the block.

    Why: the garbage may hold an earlier CUDA graph, and destroying one during a capture invalidates the capture.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def matmul_rate(times_ns: Sequence[float]) -> tuple[float, ...]:
    """Return FLOP/s of the matmul's samples."""
    return tuple(2 * MATMUL_SIDE**3 / (time_ns * 1e-9) for time_ns in times_ns)


def copy_rate(times_ns: Sequence[float]) -> tuple[float, ...]:
    """Return bytes read and written per second by the copy's samples."""
    return tuple(2 * COPY_BYTES / (time_ns * 1e-9) for time_ns in times_ns)


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
