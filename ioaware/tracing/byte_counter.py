"""Count the bytes, sectors and FLOPs of a launch in Triton's interpreter.

Every load (plain, block pointer, descriptor) reaches the interpreter's builder as `create_masked_load`, every store as
`create_masked_store`. Those two, the atomics and the dots are replaced on the builder object, not on its class. The builder's
own calls then count exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioaware._monkeypatch import Patches
from ioaware.machine.model import SECTOR_BYTES
from ioaware.result import Traffic
from ioaware.sectors import count_sectors
from ioaware.tracing.address_space import OutsideStorageError, active_lanes, element_bytes
from ioaware.tracing.observer import Observer
from ioaware.tracing.repeated_loads import RepeatedLoads


@dataclass(slots=True)
class ByteCounter:
    """Totals over the programs of a launch so far."""

    read_bytes: int = 0
    write_bytes: int = 0
    atomic_bytes: int = 0
    read_sectors: int = 0
    write_sectors: int = 0
    flops: int = 0
    repeated_bytes: int = 0
    """Bytes of loads that the compiler may merge with an equal one before them."""
    loads: RepeatedLoads = field(default_factory=RepeatedLoads)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the totals should know."""
        if not self.repeated_bytes:
            return ()
        why = "are loads of what their program has just loaded: the compiler may merge both, as derive does"
        return (f"{self.repeated_bytes} bytes {why}",)

    def traffic(self) -> Traffic:
        """Return the totals as requested bytes."""
        return Traffic(
            self.read_bytes,
            self.write_bytes,
            self.atomic_bytes,
            self.read_sectors * SECTOR_BYTES,
            self.write_sectors * SECTOR_BYTES,
        )

    def load(self, pointers: Any, mask: Any, program: object = None) -> None:
        """Count the active elements of a load and their sectors."""
        active, width, sectors = _extent(pointers, mask)
        moved = int(np.count_nonzero(active)) * width
        repeated = moved if self.loads.repeats(program, pointers, active) else 0
        held = _held.get()
        if held is not None:
            held.add(self, moved, sectors, repeated)
            return
        self.read_bytes += moved
        self.read_sectors += sectors
        self.repeated_bytes += repeated

    def store(self, pointers: Any, mask: Any) -> None:
        """Count the active elements of a store and their sectors."""
        active, width, sectors = _extent(pointers, mask)
        self.loads.write()
        self.write_bytes += int(np.count_nonzero(active)) * width
        self.write_sectors += sectors

    def atomic(self, pointers: Any, mask: Any = None) -> None:
        """Count the operands of an atomic; without a mask every lane is active."""
        active = active_lanes(pointers, mask)
        self.loads.write()
        self.atomic_bytes += int(np.count_nonzero(active)) * element_bytes(pointers)

    def dot(self, lhs: Any, accumulator: Any, k_per_column: int = 1) -> None:
        """Count 2 m n k per matrix of the batch.

        The operands are `lhs` [..., m, k / k_per_column], `accumulator` [..., m, n].
        """
        self.flops += 2 * math.prod(accumulator.data.shape) * lhs.data.shape[-1] * k_per_column


class HeldLoads:
    """Loads that are counted later, or never where nothing uses their values.

    Where one is outside its storage, the assignment is left out. That is an error only if its value is used.
    """

    def __init__(self) -> None:
        self.failure: OutsideStorageError | None = None
        self._counter: ByteCounter | None = None
        self._bytes = self._sectors = self._repeated = 0

    def add(self, counter: ByteCounter, read_bytes: int, sectors: int, repeated_bytes: int) -> None:
        """Hold back a load of `counter`."""
        self._counter = counter
        self._bytes += read_bytes
        self._sectors += sectors
        self._repeated += repeated_bytes

    @contextmanager
    def hold(self) -> Generator[None]:
        """Hold back the loads inside the block."""
        token = _held.set(self)
        try:
            yield
        except OutsideStorageError as error:
            self.failure = self.failure or error
        finally:
            _held.reset(token)

    def count(self) -> None:
        """Count the loads. Raises the `OutsideStorageError` of the first that failed."""
        if self.failure:
            raise self.failure
        if self._counter is not None:
            self._counter.read_bytes += self._bytes
            self._counter.read_sectors += self._sectors
            self._counter.repeated_bytes += self._repeated


_held: ContextVar[HeldLoads | None] = ContextVar("held loads", default=None)


def _extent(pointers: Any, mask: Any) -> tuple[NDArray[np.bool_], int, int]:
    """Return active lanes, bytes per element and distinct sectors of an access."""
    width = element_bytes(pointers)
    active = active_lanes(pointers, mask)
    return active, width, count_sectors(pointers.data, active, width)


@contextmanager
def count_accesses(counter: ByteCounter, observer: Observer | None = None) -> Generator[None]:
    """Count every access of the interpreter inside the block; values are unchanged.

    `observer` sees each access.
    """
    from triton.runtime import interpreter

    builder: Any = interpreter.interpreter_builder
    with Patches() as patches:
        _count_memory(builder, counter, patches, observer)
        _count_dots(builder, counter, patches)
        yield


def _count_memory(builder: Any, counter: ByteCounter, patches: Patches, observer: Observer | None) -> None:
    inside_atomic = False

    def load(pointers: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        if not inside_atomic:
            counter.load(pointers, mask, builder.grid_idx)
            if observer:
                observer.access("read", pointers, mask)
        return plain_load(pointers, mask, *rest, **options)

    def store(pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        if not inside_atomic:
            counter.store(pointers, mask)
            if observer:
                observer.access("write", pointers, mask, value)
        return plain_store(pointers, value, mask, *rest, **options)

    def atomic(name: str, pointers_at: int, mask_at: int | None) -> None:
        """Count an atomic once.

        Triton 3.9 builds some of them from plain loads and stores.
        """
        if not hasattr(builder, name):
            return
        plain: Callable[..., Any] = getattr(builder, name)

        def counted(*operands: Any, **options: Any) -> Any:
            nonlocal inside_atomic
            pointers, mask = operands[pointers_at], None if mask_at is None else operands[mask_at]
            counter.atomic(pointers, mask)
            if observer:
                observer.access("atomic", pointers, mask)
            inside_atomic = True
            try:
                return plain(*operands, **options)
            finally:
                inside_atomic = False

        patches.set(builder, name, counted)

    plain_load: Callable[..., Any] = patches.set(builder, "create_masked_load", load)
    plain_store: Callable[..., Any] = patches.set(builder, "create_masked_store", store)
    atomic("create_atomic_rmw", 1, 3)
    atomic("create_atomic_cas", 0, None)
    atomic("create_atomic_load", 0, 1)
    atomic("create_atomic_store", 0, 2)
    atomic("create_atomic_poll", 0, None)


def _count_dots(builder: Any, counter: ByteCounter, patches: Patches) -> None:
    def dot(lhs: Any, rhs: Any, accumulator: Any, *rest: Any, **options: Any) -> Any:
        counter.dot(lhs, accumulator)
        return plain_dot(lhs, rhs, accumulator, *rest, **options)

    plain_dot: Callable[..., Any] = patches.set(builder, "create_dot", dot)
    if not hasattr(builder, "create_dot_scaled"):
        return

    def dot_scaled(lhs: Any, scale: Any, kind: Any, *rest: Any) -> Any:
        """Operands as in Triton's builder: lhs, scale, format.

        The same of rhs; fast_math, K packing of both, accumulator.
        """
        packed = getattr(kind, "name", "") == "E2M1" and rest[4]
        counter.dot(lhs, rest[-1], 2 if packed else 1)
        return plain_scaled(lhs, scale, kind, *rest)

    plain_scaled: Callable[..., Any] = patches.set(builder, "create_dot_scaled", dot_scaled)
