"""Record what host code does beside launching.

This is streams, threads, CUDA calls and native code.

Without a GPU a stream is no place where work waits. So the order that streams impose is recorded: which streams have work that
the caller's stream never waits for.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.gate.untrusted.audited_calls import CUDA_LIBRARIES, audited_calls

_torch: Any = torch
L2_WORDS = ("persistingl2", "persisting_l2", "accesspolicy", "access_policy", "devicesetlimit", "ctxsetlimit", "setattribute")
"""Parts of CUDA names that set how the L2 keeps lines, in lower case.

The names are those of functions and attributes.
"""


@dataclass
class HostEvents:
    """What host code did in one call."""

    pending: set[str] = field(default_factory=set[str])
    """Streams with work that the caller's stream has not waited for."""
    threads: list[str] = field(default_factory=list[str])
    cuda_calls: list[str] = field(default_factory=list[str])
    """CUDA runtime or driver functions that were called, with the first argument."""
    native_code: list[str] = field(default_factory=list[str])
    """Compiled code that no trial can examine."""
    seeds: list[str] = field(default_factory=list[str])
    """Global random generators whose seed was set."""
    looks: list[str] = field(default_factory=list[str])
    """Functions by which host code looked at its callers."""
    later: list[str] = field(default_factory=list[str])
    """Functions by which code was registered that runs later."""

    @property
    def l2_calls(self) -> list[str]:
        """Return the calls and native sources that set how the L2 keeps lines."""
        return [text for text in (*self.cuda_calls, *self.native_code) if any(word in text.lower() for word in L2_WORDS)]


Clock = dict[str, int]
"""How much work of each stream is known to be done, by its name."""


class StreamOrder:
    """The stream that is current, and what each stream has waited for.

    Work is counted by stream. A wait passes on what the other stream, or the event, had done or waited for until then.
    """

    def __init__(self, events: HostEvents) -> None:
        self.events = events
        self.current: Any = None
        self._done: Clock = {}
        self._seen: dict[str, Clock] = {}

    def work(self) -> None:
        """Note work on the current stream; None is the caller's."""
        if self.current is not None:
            name = self.current.name
            self._done[name] = self._done.get(name, 0) + 1
            self.events.pending.add(name)

    def clock(self, name: str) -> Clock:
        """Return what is done when the work that a stream has now is done."""
        return {**self._seen.get(name, {}), name: self._done.get(name, 0)}

    def wait(self, name: str, clock: Clock) -> None:
        """Note that a stream waits; the host's waits are the caller's."""
        seen = self._seen.setdefault(name, {})
        for other, count in clock.items():
            seen[other] = max(seen.get(other, 0), count)
        if name == CALLERS:
            self.events.pending -= {other for other in clock if seen[other] >= self._done.get(other, 0)}


def _streams(order: StreamOrder) -> dict[str, Any]:
    """Return stand-ins for what torch.cuda has for streams and events."""

    class Stream:
        cuda_stream = 0
        made = 0

        def __init__(self, *_: Any, **__: Any) -> None:
            Stream.made += 1
            self.name = f"stream {Stream.made}"

        def wait_stream(self, other: Any) -> None:
            order.wait(self.name, order.clock(getattr(other, "name", "")))

        def wait_event(self, event: Any) -> None:
            order.wait(self.name, event.clock)

        def record_event(self, event: Any = None) -> Any:
            event = event or Event()
            event.record(self)
            return event

        def synchronize(self) -> None:
            order.wait(CALLERS, order.clock(self.name))

        def query(self) -> bool:
            return True

        def __enter__(self) -> Any:
            self._context = entered(self)
            return self._context.__enter__()

        def __exit__(self, *error: Any) -> Any:
            return self._context.__exit__(*error)

    class Event:
        stream = ""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.clock: Clock = {}

        def record(self, stream: Any = None) -> None:
            self.stream = (stream or current()).name
            self.clock = order.clock(self.stream)

        def wait(self, stream: Any = None) -> None:
            order.wait((stream or current()).name, self.clock)

        def synchronize(self) -> None:
            order.wait(CALLERS, self.clock)

        def query(self) -> bool:
            return True

        def elapsed_time(self, *_: Any) -> float:
            raise UsageError("the function times itself, which has no meaning in a trial", "Leave timing to the evaluator.")

    callers = Stream()
    callers.name = CALLERS

    def current(*_: Any) -> Any:
        return order.current or callers

    @contextmanager
    def entered(stream: Any) -> Generator[Any]:
        before = order.current
        order.current = None if stream is None or getattr(stream, "name", "") == CALLERS else stream
        try:
            yield stream
        finally:
            order.current = before

    def set_stream(stream: Any) -> None:
        order.current = None if stream.name == CALLERS else stream

    def synchronize(*_: Any) -> None:
        order.events.pending.clear()

    return {
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "stream": entered,
        "set_stream": set_stream,
        "current_stream": current,
        "default_stream": lambda *_: callers,  # pyright: ignore[reportUnknownLambdaType]
        "synchronize": synchronize,
    }


CALLERS = "the caller's stream"


class CudaLibrary:
    """Stand-in for the CUDA runtime or driver.

    Functions are recorded and return success.
    """

    def __init__(self, name: str, record: Callable[[str], None]) -> None:
        self._name = name
        self._record = record

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any) -> int:
            self._record(f"{self._name}: {name}({', '.join(map(repr, args[:1]))})")
            return 0

        return call


@contextmanager
def recorded_host_code() -> Generator[StreamOrder]:
    """Record the events of host code inside the block, which is inside a fake GPU.

    The `events` of what it gives may be replaced before each call.
    """
    order = StreamOrder(HostEvents())
    with audited_calls(lambda: order.events), Patches() as patches:
        for name, value in _streams(order).items():
            patches.set(_torch.cuda, name, value)
        _record_cuda_library(order, patches)
        _record_native_code(order, patches)
        start = threading.Thread.start

        def started(thread: threading.Thread) -> None:
            order.events.threads.append(thread.name)
            start(thread)

        patches.set(threading.Thread, "start", started)
        patches.set(threading, "excepthook", lambda _: None)  # that there is a thread is the finding  # pyright: ignore[reportUnknownLambdaType]
        yield order


def _record_cuda_library(order: StreamOrder, patches: Patches) -> None:
    def record(call: str) -> None:
        order.events.cuda_calls.append(call)

    patches.set(_torch.cuda, "cudart", lambda: CudaLibrary("torch.cuda.cudart()", record))

    def stands_in(kind: Any) -> Callable[..., Any]:
        def load(name: Any = None, *args: Any, **kwargs: Any) -> Any:
            file = str(name).rpartition("/")[2]
            return CudaLibrary(file, record) if file.startswith(CUDA_LIBRARIES) else kind(name, *args, **kwargs)

        return load

    for name in ("CDLL", "PyDLL"):
        patches.set(ctypes, name, stands_in(getattr(ctypes, name)))
    patches.set(ctypes.cdll, "LoadLibrary", stands_in(ctypes.cdll.LoadLibrary))


def _record_native_code(order: StreamOrder, patches: Patches) -> None:
    from torch.utils import cpp_extension

    def refuse(how: str) -> Callable[..., Any]:
        def load(*args: Any, **kwargs: Any) -> Any:
            order.events.native_code.append(f"{how}: {args} {kwargs}"[:LONGEST_SOURCE])
            raise UsageError(f"the function compiles native code with {how}", "A trial examines Triton kernels only.")

        return load

    for name in ("load", "load_inline"):
        patches.set(cpp_extension, name, refuse(f"torch.utils.cpp_extension.{name}"))
    if hasattr(_torch.cuda, "_compile_kernel"):
        patches.set(_torch.cuda, "_compile_kernel", refuse("torch.cuda._compile_kernel"))


LONGEST_SOURCE = 100_000
