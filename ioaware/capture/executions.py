"""Remember what executed launches moved.

A target runs several times, also with other random numbers. Its launches are executed once for each contents that they read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace

import numpy as np

from ioaware.compilation.execution.integer_arithmetic import Array
from ioaware.compilation.execution.program_values import Moved


class Executions:
    """Latest execution of each launch, by its code, arguments, grid and tensors.

    `other_draw`: this run draws other random numbers than the one whose bytes count. Then launches that read random contents
    are not executed again, for those bytes are known to be one example of many.
    """

    def __init__(self, latest: dict[Hashable, Moved] | None = None, *, other_draw: bool = False) -> None:
        self._latest: dict[Hashable, Moved] = {} if latest is None else latest
        self._other_draw = other_draw

    def of_other_draw(self) -> Executions:
        """Return the same executions for a run with other random numbers."""
        return Executions(self._latest, other_draw=True)

    def find(self, launch: Hashable, data: Mapping[str, Array], is_random: Callable[[Collection[str]], bool]) -> Moved | None:
        """Return what a launch moved that read the same contents; None if none did.

        `is_random` says whether the contents of these tensors were drawn at random.
        """
        found = self._latest.get(launch)
        if found is None:
            return None
        is_same = all(np.array_equal(contents, data[name]) for name, contents in found.contents.items())
        return replace(found) if is_same or (self._other_draw and is_random(found.read_names)) else None

    def add(self, launch: Hashable, moved: Moved) -> None:
        """Remember an execution."""
        self._latest[launch] = moved
