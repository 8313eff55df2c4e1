"""Give host code a clock whose readings follow from a seed.

Every run of the host function then reads the same times. A run at another seed reads other dates, fractions of a second
and durations. Libraries, and threads that were there before, read the real clock.
"""

from __future__ import annotations

import datetime
import gc
import threading
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ioaware.fakegpu.host_caller import calling_code, is_library, other_threads
from ioaware.fakegpu.replaced_names import replaced_names

START_NS = 1_767_225_600_000_000_000
"""The first of January 2026, in nanoseconds since 1970."""
APART_NS = (36 * 24 + 5) * 3_600_000_000_000 + 671 * 1_000_000_000 + 173_205_081
"""Time between the clocks of two seeds.

Months, days of the week, hours, minutes, fractions of a second and parities differ.
"""
FIRST_STEP_NS = (1_000_000, 1_000, 30_000_000, 1_000_000_000, 30_000_000_000, 300_000_000_000)
"""Time between the first two readings, by seed."""
GROWTH = 1.1
"""Factor between two steps, so that every wait ends."""
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


class HostClock:
    """Readings of a seeded clock.

    `used` says whether host code has read it.
    """

    def __init__(self, seed: int) -> None:
        self.used = False
        self._others = other_threads()
        self._start_ns = START_NS + seed * APART_NS
        self._apart_ns = seed * (APART_NS % 3_600_000_000_000)
        self._elapsed_ns = 0
        self._step_ns = FIRST_STEP_NS[seed % len(FIRST_STEP_NS)]

    def wall_s(self) -> float:
        """Return seconds since 1970."""
        return (self._start_ns + self._tick()) / 1e9

    def reading(self, _: Any, *, is_wall: bool, unit: float) -> float:
        """Return the time in units of so many nanoseconds, ints for one.

        It is since 1970 or since an arbitrary point.
        """
        now_ns = (self._start_ns if is_wall else self._apart_ns) + self._tick()
        return now_ns if unit == 1 else now_ns / unit

    def converted(self, convert: Callable[[float], Any]) -> Any:
        """Return the time since 1970 in another form."""
        return convert(self.wall_s())

    def written(self, local: Callable[[float], Any], write: Callable[[str, Any], str], form: str) -> str:
        """Return the local time as text in a form."""
        return write(form, local(self.wall_s()))

    def _tick(self) -> int:
        """Return the time since the start; every reading adds a longer step."""
        self.used = True
        self._elapsed_ns += self._step_ns
        self._step_ns = int(self._step_ns * GROWTH)
        return self._elapsed_ns

    def is_for_caller(self) -> bool:
        """Return whether the caller of the calling function is host code.

        `uuid` reads the clock for its own caller. A callback of the garbage collector runs within host code, for another
        library (hypothesis times collections).
        """
        code = calling_code((uuid.__file__,))
        collecting = any(getattr(callback, "__code__", None) is code for callback in gc.callbacks)
        return not collecting and threading.get_ident() not in self._others and not is_library(code.co_filename)


@contextmanager
def seeded_host_clock(seed: int) -> Generator[HostClock]:
    """Replace the clocks of `time` and `datetime` for host code inside the block."""
    clock = HostClock(seed)
    with replaced_names(_functions(clock) | _classes(clock), (time, datetime)) as patches:
        for name in ("_generate_time_safe", "_UuidCreate"):  # they read the clock in C
            patches.set(uuid, name, None)
        yield clock


def _functions(clock: HostClock) -> dict[Any, Any]:
    """Return the functions of `time` that read a clock, with their replacements."""
    found: dict[Any, Any] = {}
    for name in CLOCKS:
        is_wall = name == "time"
        for suffix, unit in (("", 1e9), ("_ns", 1)):
            plain: Any = getattr(time, f"{name}{suffix}")
            found[plain] = _reading(clock, plain, partial(clock.reading, is_wall=is_wall, unit=unit))
    for plain in (time.localtime, time.gmtime, time.ctime):
        found[plain] = _reading(clock, plain, clock.converted)
    found[time.strftime] = _reading(clock, time.strftime, partial(clock.written, time.localtime), given=1)
    return found


def _reading(clock: HostClock, plain: Any, read: Callable[..., Any], given: int = 0) -> Callable[..., Any]:
    """Return a function that reads the clock for host code by `read(plain, ...)`.

    With more than `given` arguments it converts a given time.
    """

    def function(*args: Any) -> Any:
        converts = len([value for value in args if value is not None]) > given
        return plain(*args) if converts or not clock.is_for_caller() else read(plain, *args[:given])

    return function


class _SameInstances(type):
    """Instances of the replaced class are those of its base."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


def _classes(clock: HostClock) -> dict[Any, Any]:
    """Return the classes of `datetime` that read a clock, with their replacements."""
    moment, day = datetime.datetime, datetime.date

    class Moment(moment, metaclass=_SameInstances):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return moment.fromtimestamp(clock.wall_s(), tz) if clock.is_for_caller() else moment.now(tz)

        @classmethod
        def utcnow(cls) -> Any:
            seconds = clock.wall_s() if clock.is_for_caller() else time.time()
            return moment.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return moment.fromtimestamp(clock.wall_s()) if clock.is_for_caller() else moment.today()

    class Day(day, metaclass=_SameInstances):
        @classmethod
        def today(cls) -> Any:
            return day.fromtimestamp(clock.wall_s()) if clock.is_for_caller() else day.today()

    return {moment: Moment, day: Day}
