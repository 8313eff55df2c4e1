"""The bytes and FLOPs of one launch, counted where Triton's interpreter touches memory.

Every load reaches the interpreter's builder as `create_masked_load` and every store as `create_masked_store`, whether it
was written as a plain, block-pointer or descriptor access, so those two and the atomics are the places to count. They are
replaced on the builder object, not on its class, so that the builder's own calls are seen exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ioaware._monkeypatch import Patches
from ioaware.result import Traffic
from ioaware.sectors import SECTOR_BYTES, count_sectors
from ioaware.tracing.address_check import Memory


@dataclass(slots=True)
class ByteCounter:
    """What the programs of a launch asked for so far."""

    read_bytes: int = 0
    write_bytes: int = 0
    atomic_bytes: int = 0
    read_sectors: int = 0
    write_sectors: int = 0
    flops: int = 0
    memory: Memory = field(default_factory=Memory, compare=False)

    def traffic(self) -> Traffic:
        """The counts as requested bytes."""
        return Traffic(
            self.read_bytes,
            self.write_bytes,
            self.atomic_bytes,
            self.read_sectors * SECTOR_BYTES,
            self.write_sectors * SECTOR_BYTES,
        )

    def load(self, pointers: Any, mask: Any) -> None:
        """Counts the active elements of a load and the sectors they lie in."""
        elements, width, sectors = self._extent(pointers, mask, writes=False)
        self.read_bytes += elements * width
        self.read_sectors += sectors

    def store(self, pointers: Any, mask: Any) -> None:
        """Counts the active elements of a store and the sectors they lie in."""
        elements, width, sectors = self._extent(pointers, mask, writes=True)
        self.write_bytes += elements * width
        self.write_sectors += sectors

    def atomic(self, pointers: Any, mask: Any = None) -> None:
        """Counts the operands of an atomic; without a mask every lane takes part."""
        active = np.broadcast_to(np.True_ if mask is None else _array(mask), pointers.data.shape)
        self.memory.check(pointers.data[active], _width(pointers), writes=True)
        self.atomic_bytes += int(np.count_nonzero(active)) * _width(pointers)

    def _extent(self, pointers: Any, mask: Any, *, writes: bool) -> tuple[int, int, int]:
        """Active elements, bytes of one, and distinct sectors of an access."""
        width = _width(pointers)
        active = np.broadcast_to(_array(mask), pointers.data.shape)
        self.memory.check(pointers.data[active], width, writes=writes)
        return int(np.count_nonzero(active)), width, count_sectors(pointers.data, active, width)

    def dot(self, lhs: Any, accumulator: Any, k_per_column: int = 1) -> None:
        """Counts 2 m n k per matrix of the batch: `lhs` is [..., m, k / k_per_column], `accumulator` [..., m, n]."""
        self.flops += 2 * math.prod(accumulator.data.shape) * lhs.data.shape[-1] * k_per_column


def _array(handle: Any) -> Any:
    """The numpy array of a mask, which block pointers and descriptors pass bare and everything else as a handle. As truth
    values: what a kernel's arithmetic made of them may be integers, which numpy would take for places."""
    return np.asarray(handle if isinstance(handle, np.ndarray) else handle.data, bool)


def _width(pointers: Any) -> int:
    """Bytes of an element behind the pointers; a boolean occupies one."""
    return max(1, pointers.get_element_ty().primitive_bitwidth // 8)


@contextmanager
def count_accesses(counter: ByteCounter) -> Generator[None]:
    """Counts into `counter` whatever the interpreter accesses inside the block. Values pass through untouched."""
    from triton.runtime import interpreter

    builder: Any = interpreter.interpreter_builder
    with Patches() as patches:
        _count_memory(builder, counter, patches)
        _count_dots(builder, counter, patches)
        yield


def _count_memory(builder: Any, counter: ByteCounter, patches: Patches) -> None:
    inside_atomic = False

    def load(pointers: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        if not inside_atomic:
            counter.load(pointers, mask)
        return plain_load(pointers, mask, *rest, **options)

    def store(pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        if not inside_atomic:
            counter.store(pointers, mask)
        return plain_store(pointers, value, mask, *rest, **options)

    def atomic(name: str, pointers_at: int, mask_at: int | None) -> None:
        """Counts an atomic; Triton 3.9 builds some of them from plain loads and stores, which are then not counted again."""
        if not hasattr(builder, name):
            return
        plain: Callable[..., Any] = getattr(builder, name)

        def counted(*operands: Any, **options: Any) -> Any:
            nonlocal inside_atomic
            counter.atomic(operands[pointers_at], None if mask_at is None else operands[mask_at])
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
        """Operands as in Triton's builder: lhs, scale, format, rhs likewise, fast_math, K packing of both, accumulator."""
        two_a_byte = getattr(kind, "name", "") == "E2M1" and rest[4]
        counter.dot(lhs, rest[-1], 2 if two_a_byte else 1)
        return plain_scaled(lhs, scale, kind, *rest)

    plain_scaled: Callable[..., Any] = patches.set(builder, "create_dot_scaled", dot_scaled)
