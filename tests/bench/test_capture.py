"""CUDA graph capture: no garbage collection during a capture.

This holds on a GPU and on a fake one.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ioaware.bench.gpu_timing import Device, without_gc

gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@contextmanager
def frequent_collections() -> Generator[None]:
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Cycle:
    """A reference cycle, which only the garbage collector frees."""

    def __init__(self, attachment: Any, deleted_while_capturing: list[bool] | None = None, graph: Any = None) -> None:
        self.me, self.attachment, self.deleted_while_capturing, self.graph = self, attachment, deleted_while_capturing, graph

    def __del__(self) -> None:
        if self.deleted_while_capturing is not None:
            self.deleted_while_capturing.append(self.graph.capturing)


class FakeGraph:
    capturing = False

    def capture_begin(self) -> None:
        FakeGraph.capturing = True

    def capture_end(self) -> None:
        FakeGraph.capturing = False

    def replay(self) -> None:
        pass


class FakeEvent:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        return 1e-6 if other is not self else 0.0


def fake_device() -> Device:
    device = object.__new__(Device)
    cuda = SimpleNamespace(CUDAGraph=FakeGraph, synchronize=lambda: None, Event=FakeEvent)
    device.torch = SimpleNamespace(cuda=cuda)
    return device


def test_nothing_is_collected_while_a_graph_is_captured() -> None:
    deleted_while_capturing: list[bool] = []

    def run() -> tuple[torch.Tensor, ...]:
        for _ in range(20):
            Cycle([], deleted_while_capturing, FakeGraph)
        return (torch.ones(1),)

    with frequent_collections():
        sample = fake_device().sample([run], lambda outputs: True)
        assert gc.isenabled()
        gc.collect()
    assert sample.captured
    assert len(deleted_while_capturing) >= 40  # one run for its duration, one captured
    assert not any(deleted_while_capturing)


def test_the_state_of_the_collector_is_restored() -> None:
    gc.disable()
    try:
        with without_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(RuntimeError), without_gc():
        raise RuntimeError
    assert gc.isenabled()


@gpu
@needs_gpu
def test_a_garbage_graph_does_not_invalidate_the_next_capture() -> None:
    """Destroying a CUDA graph during a capture makes the capture invalid."""
    device, x = Device(), torch.ones(1000, device="cuda")

    def run() -> tuple[torch.Tensor, ...]:
        _ = [[number] for number in range(2000)]  # enough objects for a collection
        return (x + 1,)

    def right(outputs: Any) -> bool:
        return bool((outputs[0] == 2).all())

    with device.on_side_stream():
        run()
        for _ in range(3):
            Cycle(device.sample([run], right))
            with frequent_collections():
                sample = device.sample([run], right)
            assert sample.captured, sample.reason
