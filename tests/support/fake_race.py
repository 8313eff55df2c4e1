"""A race on the CPU: small points, a fake device and clock, and back ends.

The back ends have a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import BackEnd, Candidate, UnsupportedError
from ioaware.bench.gpu_timing import COPY, COPY_BYTES, MATMUL, MATMUL_SIDE, Sample
from ioaware.bench.run import Session
from ioaware.measurement.nvml import Gpu, open_gpu
from tests.support.fakes import FakeNvml

SMALL = Point("forward", 2, 2, 2, 16, 16, 8, True, "float16")
BACK = Point("backward", 2, 2, 2, 16, 16, 8, False, "float16")
DECODE = Point("decode", 2, 4, 2, 1, 32, 8, False, "float16")


def exact(point: Point) -> Candidate:
    """Attention in float32, differentiable."""

    def forward(q: Any, k: Any, v: Any) -> Any:
        how = {"is_causal": point.causal, "enable_gqa": point.heads != point.kv_heads}
        return torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), **how).to(q.dtype)

    return Candidate(forward, ran=lambda: "exact: requested")


def refusing(point: Point) -> Candidate:
    raise UnsupportedError("not at this head_dim")


def crashing(point: Point) -> Candidate:
    def forward(q: Any, k: Any, v: Any) -> Any:
        raise RuntimeError("out of shared memory\nand more lines")

    return Candidate(forward)


def wrong(point: Point) -> Candidate:
    return Candidate(lambda q, k, v: exact(point).forward(q, k, v) * 1.05)


def unwritten_row(point: Point) -> Candidate:
    """Leaves the last head's last row unwritten."""

    def forward(q: Any, k: Any, v: Any) -> Any:
        output = exact(point).forward(q, k, v).clone()
        output[-1, -1, -1] = float("nan")
        return output

    return Candidate(forward)


class FakeClock:
    """A clock where each back end takes its given nanoseconds.

    They are multiplied by the pace of the round.
    """

    def __init__(self, samples: Mapping[str, Sample], gpu: Gpu, costs_ns: Mapping[str, float]) -> None:
        self.samples, self.gpu, self.costs_ns = samples, gpu, costs_ns
        self.snapshots: list[Any] = []
        self.pace = 1.0

    def queue(self, name: str) -> Callable[[], float]:
        self.samples[name].play()
        time_ns = self.costs_ns[name] * self.pace
        return lambda: time_ns

    def snapshot(self) -> None:
        self.snapshots.append(self.gpu.snapshot())

    def synchronize(self) -> None:
        self.pace *= 1.01


class FakeDevice:
    """The CPU, with the methods of `Device`."""

    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))

    def __init__(self, costs_ns: Mapping[str, float] | None = None, *, lost: bool = False) -> None:
        self.costs_ns = {MATMUL: 1e6, COPY: 1e5, **(costs_ns or {})}
        self.is_lost = lost
        self.poisoned = 0

    def inputs(self, shapes: Sequence[tuple[int, ...]], dtype: str, seed: int) -> list[Any]:
        torch.manual_seed(seed)
        return [torch.randn(shape, dtype=getattr(torch, dtype)) for shape in shapes]

    def on_side_stream(self) -> AbstractContextManager[None]:
        return nullcontext()

    def poison(self, size_bytes: int) -> None:
        self.poisoned += 1

    def lost(self) -> bool:
        return self.is_lost

    def host_us(self, run: Callable[[], object]) -> float:
        return 12.0

    def sample(self, runs: Sequence[Callable[[], Any]], right: Callable[[Any], bool]) -> Sample:
        return Sample(runs[0], 1, captured=True, check=lambda: right(runs[0]()))

    def clock(self, samples: Mapping[str, Sample], gpu: Gpu) -> FakeClock:
        return FakeClock(samples, gpu, self.costs_ns)


def session(device: FakeDevice, nvml: FakeNvml | None = None) -> Session:
    gpu = open_gpu(nvml or FakeNvml(), {})
    ceilings = {name: Sample(lambda: None, 1, captured=True) for name in (MATMUL, COPY)}
    return Session(device, gpu, ceilings, frozenset(), {"gpu": "NVIDIA H200", "commit": "abc"})  # type: ignore[arg-type]


def ends(**enters: Callable[[Point], Candidate]) -> list[BackEnd]:
    return [BackEnd(name.replace("_", "-"), prepare) for name, prepare in enters.items()]


MATMUL_FLOPS_PER_S = 2 * MATMUL_SIDE**3 / 1e-3
COPY_BYTES_PER_S = 2 * COPY_BYTES / 1e-4
