"""Addresses that a traced kernel may touch: memory that this process has. Anything else would end it without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAPS = Path("/proc/self/maps")
Addresses = NDArray[np.uint64]


class Memory:
    """The process's memory as of the last time that an address was not in it."""

    def __init__(self) -> None:
        self._known: dict[bool, tuple[Addresses, Addresses]] = {}

    def check(self, addresses: Addresses, width: int, *, writes: bool) -> None:
        """Raises `IndexError` for an element of `width` bytes that the process cannot read, or write. Where the system does
        not say what memory there is, nothing is known and nothing raised."""
        if addresses.size == 0 or self._holds(addresses, width, writes):
            return
        if not MAPS.exists():
            return
        self._known = {kind: _mapped("w" if kind else "r") for kind in (False, True)}
        if not self._holds(addresses, width, writes):
            raise IndexError(
                f"the kernel {'writes' if writes else 'reads'} far outside of its tensors, where there is no memory"
            )

    def _holds(self, addresses: Addresses, width: int, writes: bool) -> bool:
        if writes not in self._known:
            return False
        starts, ends = self._known[writes]
        place = np.searchsorted(starts, addresses, side="right")
        return bool((place > 0).all() and (addresses + np.uint64(width) <= ends[place - 1]).all())


def _mapped(permission: str) -> tuple[Addresses, Addresses]:
    """Where memory with this permission begins and ends, neighbours joined."""
    joined: list[list[int]] = []
    for line in MAPS.read_text(encoding="ascii", errors="replace").splitlines():
        span, permissions = line.split(" ", 2)[:2]
        if permission not in permissions:
            continue
        start, end = (int(address, 16) for address in span.split("-"))
        if joined and joined[-1][1] == start:
            joined[-1][1] = end
        else:
            joined.append([start, end])
    starts, ends = np.array(joined, np.uint64).T
    return starts, ends
