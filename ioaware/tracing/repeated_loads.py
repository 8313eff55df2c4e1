"""Find loads that repeat an earlier one of their program.

The compiler merges two equal loads of one block of code if nothing is written between them. The interpreter makes both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioaware.tracing.source.loop_index import LoopRange


class RepeatedLoads:
    """Loads that programs make again in one block of code.

    Nothing is written in between. A loop's iteration is a block of its own, unless the compiler knows that there is just one.
    """

    def __init__(self) -> None:
        self._where: object = None
        self._seen: set[tuple[bytes, bytes]] = set()

    def repeats(self, program: object, pointers: Any, active: NDArray[np.bool_]) -> bool:
        """Return whether the program has just loaded these lanes."""
        where = (program, LoopRange.blocks)
        if where != self._where:
            self._where, self._seen = where, set()
        key = (pointers.data.tobytes(), active.tobytes())
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    def write(self) -> None:
        """Note that memory changed."""
        self._seen.clear()
