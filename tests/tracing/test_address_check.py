"""Which addresses a traced kernel may touch."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.tracing.address_check import Memory

NOWHERE = 2**47 - 8192  # above what a process is given


def test_what_the_process_has_may_be_touched_and_nothing_else() -> None:
    memory, held = Memory(), np.zeros(100_000, np.float32)
    inside = np.arange(held.ctypes.data, held.ctypes.data + held.nbytes, 4, dtype=np.uint64)
    memory.check(inside, 4, writes=True)
    memory.check(inside, 4, writes=False)
    memory.check(np.zeros(0, np.uint64), 4, writes=True)
    with pytest.raises(IndexError, match="writes far outside"):
        memory.check(np.append(inside, np.uint64(NOWHERE)), 4, writes=True)
    with pytest.raises(IndexError, match="reads far outside"):
        memory.check(np.array([0], np.uint64), 4, writes=False)


def test_memory_that_came_later_is_found() -> None:
    memory, first = Memory(), np.zeros(10)
    memory.check(np.array([first.ctypes.data], np.uint64), 8, writes=True)
    later = np.zeros(64 * 2**20 // 8)  # large enough for a mapping of its own
    memory.check(np.array([later.ctypes.data + later.nbytes - 8], np.uint64), 8, writes=True)


def test_a_string_is_not_for_writing() -> None:
    """Constants of a library are mapped to be read."""
    import ctypes

    address = ctypes.cast(ctypes.CDLL(None).getenv, ctypes.c_void_p).value or 0
    Memory().check(np.array([address], np.uint64), 1, writes=False)
    with pytest.raises(IndexError, match="writes"):
        Memory().check(np.array([address], np.uint64), 1, writes=True)
