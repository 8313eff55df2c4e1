"""Capturing: on a GPU, and on a fake one that remembers what was destroyed while it captured."""

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
    """Garbage that only a collection finds."""

    def __init__(self, kept: Any, died: list[bool] | None = None, graph: Any = None) -> None:
        self.me, self.kept, self.died, self.graph = self, kept, died, graph

    def __del__(self) -> None:
        if self.died is not None:
            self.died.append(self.graph.capturing)


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
    died: list[bool] = []

    def run() -> tuple[torch.Tensor, ...]:
        for _ in range(20):
            Cycle([], died, FakeGraph)
        return (torch.ones(1),)

    with frequent_collections():
        sample = fake_device().sample([run], lambda outputs: True)
        assert gc.isenabled()
        gc.collect()
    assert sample.captured
    assert len(died) >= 40  # once to see how long it takes, once captured
    assert not any(died)


def test_collecting_goes_on_as_it_was() -> None:
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
def test_a_graph_in_the_garbage_does_not_spoil_the_next() -> None:
    """Destroying a CUDA graph during a capture makes the capture invalid."""
    device, x = Device(), torch.ones(1000, device="cuda")

    def run() -> tuple[torch.Tensor, ...]:
        _ = [[number] for number in range(2000)]  # enough for a collection
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
