"""Let what differs between processes differ between runs of host code.

These are the hashes of text and of objects, `id()`, and the numbers of processes. A run at seed 0 gets the true ones, one at
another seed gets others; equal values have equal hashes in each. Threads that were there before get the true ones.
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import torch

from ioaware.fakegpu.host_caller import calling_code, host_modules, is_library, other_threads
from ioaware.fakegpu.replaced_names import replaced_names

MASKS = (0, ~0, 0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 0x6996_9669_9669_6996, 0x0F1E_2D3C_4B5A_6978)
"""Bits in which the hashes of two seeds differ; those of the first two in all."""
ADDRESS_BITS = 0x0000_7FFF_FFFF_FFF0
"""Bits of an address that differ."""
SAME_HASHES = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
"""Types whose hashes are the same in each process."""


class HostProcess:
    """What host code asks about its process; `used` says whether it asked."""

    def __init__(self, seed: int) -> None:
        self.used = False
        self._seed = seed
        self._others = other_threads()
        self._mask = MASKS[seed % len(MASKS)]

    def hash(self, value: Any) -> int:
        """Return the hash of a value, another one for each seed where processes differ."""
        plain = builtins.hash(value)
        if self._is_elsewhere() or _has_same_hash(value):
            return plain
        self.used = True
        return plain ^ (self._mask >> 1 if self._mask > 0 else self._mask)

    def id(self, value: Any) -> int:
        """Return the identity of a value, another one for each seed."""
        if self._is_elsewhere():
            return builtins.id(value)
        self.used = True
        return builtins.id(value) ^ (self._mask & ADDRESS_BITS)

    def number(self, plain: Callable[[], int]) -> int:
        """Return the number of a process, another one for each seed, to host code."""
        if self._is_elsewhere() or is_library(calling_code().co_filename):
            return plain()
        self.used = True
        return plain() + self._seed

    def _is_elsewhere(self) -> bool:
        return threading.get_ident() in self._others


@contextmanager
def seeded_host_process(seed: int) -> Generator[HostProcess]:
    """Answer host code inside the block as another process would."""
    process = HostProcess(seed)
    numbers = {function: _numbered(process, function) for function in (os.getpid, os.getppid)}
    with replaced_names(numbers, (os,)) as patches:
        for module in host_modules():
            for name, function in (("hash", process.hash), ("id", process.id)):
                if name not in vars(module):
                    patches.add(module, name, function)
        yield process


def _numbered(process: HostProcess, plain: Callable[[], int]) -> Callable[[], int]:
    def number() -> int:
        return process.number(plain)

    return number


def _has_same_hash(value: Any) -> bool:
    """Return whether each process has the same hash for a value.

    A class of host code hashes by `hash()`, which is followed there.
    """
    if isinstance(value, (tuple, frozenset)):
        return all(map(_has_same_hash, cast("tuple[Any, ...]", value)))
    code: Any = getattr(type(value).__hash__, "__code__", None)
    return isinstance(value, SAME_HASHES) or (code is not None and not is_library(code.co_filename))
