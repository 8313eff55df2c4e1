"""Check the addresses of a traced kernel against the memory mapped in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAPS = Path("/proc/self/maps")
Addresses = NDArray[np.uint64]


class Memory:
    """The mapped memory, read again whenever an address is outside the cached map."""

    def __init__(self) -> None:
        self._known: dict[bool, tuple[Addresses, Addresses]] = {}

    def check(self, addresses: Addresses, width: int, *, writes: bool) -> None:
        """Raise `IndexError` for an element of `width` bytes outside memory that is readable, or writable.

        On systems without /proc/self/maps nothing is checked.
        """
        if addresses.size == 0 or self._holds(addresses, width, writes):
            return
        if not MAPS.exists():
            return
        self._known = _mapped()
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


def _mapped() -> dict[bool, tuple[Addresses, Addresses]]:
    """Return starts and ends of readable and of writable memory, adjacent mappings merged."""
    joined: dict[bool, list[list[int]]] = {False: [], True: []}
    for line in MAPS.read_text(encoding="ascii", errors="replace").splitlines():
        span, permissions = line.split(" ", 2)[:2]
        start, _, end = span.partition("-")
        first, last = int(start, 16), int(end, 16)
        for writes, letter in ((False, "r"), (True, "w")):
            if letter not in permissions:
                continue
            spans = joined[writes]
            if spans and spans[-1][1] == first:
                spans[-1][1] = last
            else:
                spans.append([first, last])
    starts_and_ends = {writes: np.array(spans, np.uint64).T for writes, spans in joined.items()}
    return {writes: (starts, ends) for writes, (starts, ends) in starts_and_ends.items()}
