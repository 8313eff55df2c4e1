"""Streams, threads, CUDA calls and native code of host code, as they are recorded."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from ioaware.errors import UsageError
from ioaware.gate.untrusted.host_events import CudaLibrary, HostEvents, StreamOrder, recorded_host_code

cuda: Any = torch.cuda


@pytest.fixture
def order() -> Iterator[StreamOrder]:
    with recorded_host_code() as recorded:
        yield recorded


def pending(order: StreamOrder) -> int:
    return len(order.events.pending)


def test_work_on_the_callers_stream_is_never_pending(order: StreamOrder) -> None:
    order.work()
    with cuda.stream(None):
        order.work()
    with cuda.stream(cuda.current_stream()):
        order.work()
    cuda.set_stream(cuda.default_stream())
    order.work()
    assert pending(order) == 0


def test_work_on_another_stream_is_pending_until_it_is_waited_for(order: StreamOrder) -> None:
    one, other = cuda.Stream(), cuda.Stream()
    assert one.name != other.name
    with cuda.stream(one):
        order.work()
        with other:
            order.work()
            assert cuda.current_stream() is other
        assert cuda.current_stream() is one
    assert cuda.current_stream() is cuda.default_stream()
    assert order.events.pending == {one.name, other.name}
    other.wait_stream(one)  # is no wait of the caller's
    assert pending(order) == 2
    cuda.current_stream().wait_stream(one)
    assert order.events.pending == {other.name}
    other.synchronize()
    assert pending(order) == 0


def test_events_pass_a_wait_on(order: StreamOrder) -> None:
    side = cuda.Stream()
    event = cuda.Event(enable_timing=True)
    with cuda.stream(side):
        order.work()
        event.record()
        event.wait()  # by the stream itself
    assert pending(order) == 1
    event.wait(cuda.Stream())
    assert pending(order) == 1
    event.wait()
    assert pending(order) == 0
    for wait in (lambda made: cuda.current_stream().wait_event(made), lambda made: made.synchronize()):
        with cuda.stream(side):
            order.work()
        made = side.record_event()
        cuda.Stream().wait_event(made)
        assert pending(order) == 1
        wait(made)
        assert pending(order) == 0
    again = side.record_event(event)
    assert again is event
    other = cuda.Event()
    other.record(side)
    assert (other.stream, event.stream) == (side.name, side.name)


def test_a_wait_passes_on_what_the_other_stream_has_waited_for(order: StreamOrder) -> None:
    one, other = cuda.Stream(), cuda.Stream()
    with cuda.stream(one):
        order.work()
    other.wait_stream(one)
    with cuda.stream(other):
        order.work()
    cuda.current_stream().wait_stream(other)
    assert pending(order) == 0


def test_a_wait_covers_earlier_work_only(order: StreamOrder) -> None:
    side = cuda.Stream()
    early = side.record_event()
    cuda.current_stream().wait_stream(side)
    with cuda.stream(side):
        order.work()
    cuda.current_stream().wait_event(early)
    early.synchronize()
    assert order.events.pending == {side.name}
    cuda.current_stream().wait_event(side.record_event())
    assert pending(order) == 0


def test_synchronize_waits_for_every_stream(order: StreamOrder) -> None:
    cuda.set_stream(side := cuda.Stream())
    order.work()
    assert cuda.current_stream() is side
    cuda.set_stream(cuda.default_stream())
    cuda.synchronize()
    assert pending(order) == 0
    assert cuda.current_stream().query() is True
    assert cuda.Event().query() is True
    with pytest.raises(UsageError, match="times itself") as raised:
        cuda.Event().elapsed_time(cuda.Event())
    assert raised.value.remedy == "Leave timing to the evaluator."


def test_an_error_leaves_the_stream(order: StreamOrder) -> None:
    with pytest.raises(KeyError), cuda.stream(cuda.Stream()):
        raise KeyError
    assert order.current is None


def test_calls_of_cuda_libraries_are_recorded(order: StreamOrder) -> None:
    assert cuda.cudart().cudaDeviceSetLimit(6, 10) == 0
    loaded: Any = ctypes.CDLL("/usr/lib/libcuda.so.1")
    assert loaded.cuInit() == 0
    ctypes.PyDLL("libcudart.so").cudaFree(1)
    ctypes.cdll.LoadLibrary("libnvrtc.so").nvrtcVersion()
    assert order.events.cuda_calls == [
        "torch.cuda.cudart(): cudaDeviceSetLimit(6)",
        "libcuda.so.1: cuInit()",
        "libcudart.so: cudaFree(1)",
        "libnvrtc.so: nvrtcVersion()",
    ]
    assert order.events.l2_calls == ["torch.cuda.cudart(): cudaDeviceSetLimit(6)"]
    assert ctypes.CDLL(None).getpid() > 0  # any other library is the real one
    with pytest.raises(AttributeError):
        CudaLibrary("c", print).__array__  # noqa: B018


def test_names_that_set_how_the_l2_keeps_lines() -> None:
    for text in ("cudaLimitPersistingL2CacheSize", "a: accessPolicyWindow", "cuCtxSetLimit", "cudaStreamSetAttribute"):
        assert HostEvents(cuda_calls=[text]).l2_calls == [text]
        assert HostEvents(native_code=[text]).l2_calls == [text]
    assert HostEvents(cuda_calls=["cudaMalloc"], native_code=["x: y"]).l2_calls == []


@pytest.mark.parametrize("name", ["load", "load_inline"])
def test_native_code_is_refused_and_recorded(order: StreamOrder, name: str) -> None:
    from torch.utils import cpp_extension

    build: Any = getattr(cpp_extension, name)
    with pytest.raises(UsageError, match=rf"compiles native code with torch.utils.cpp_extension.{name}") as raised:
        build("module", cpp_sources="x" * 200_000)
    assert raised.value.remedy == "A trial examines Triton kernels only."
    (found,) = order.events.native_code
    assert found.startswith(f"torch.utils.cpp_extension.{name}: ('module',) {{'cpp_sources': 'xxx")
    assert len(found) == 100_000


def test_threads_are_recorded_and_run(order: StreamOrder) -> None:
    ran: list[int] = []
    thread = threading.Thread(target=lambda: ran.append(1), name="worker")
    thread.start()
    thread.join()
    failing = threading.Thread(target=lambda: 1 / 0, name="failing")
    failing.start()
    failing.join()
    assert (ran, order.events.threads) == ([1], ["worker", "failing"])


def test_everything_is_put_back() -> None:
    before = (cuda.Stream, cuda.synchronize, cuda.cudart, ctypes.CDLL, threading.Thread.start, threading.excepthook)
    with recorded_host_code() as order:
        assert cuda.Stream is not before[0]
        order.events = later = HostEvents()
        cuda.cudart().cudaFree()
    assert later.cuda_calls == ["torch.cuda.cudart(): cudaFree()"]
    assert (cuda.Stream, cuda.synchronize, cuda.cudart, ctypes.CDLL, threading.Thread.start, threading.excepthook) == before
